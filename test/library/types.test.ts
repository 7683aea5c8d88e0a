// What the compiler knows: checked by `npm run check:types`; at run time nothing of this can fail.
import { expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { defineTarget, httpTarget, type Onceish, openOnceish, type PayloadsOf } from '../../src/index.ts'

const render = defineTarget({
  name: 'render',
  version: '1',
  payload: z.object({ video: z.string(), fps: z.number().default(25), tags: z.array(z.enum(['a', 'b'])).optional() }),
  invoke: (call) => {
    expectTypeOf(call.payload).toEqualTypeOf<{ video: string; fps: number; tags?: ('a' | 'b')[] | undefined }>()
    expectTypeOf(call.key).toEqualTypeOf<string | null>()
    expectTypeOf(call.signal).toEqualTypeOf<AbortSignal>()
    return { taskId: call.payload.video }
  },
  lookup: ({ payload }) => {
    expectTypeOf(payload.fps).toEqualTypeOf<number>()
    return { kind: 'absent' }
  },
  status: (question) => {
    expectTypeOf(question).not.toHaveProperty('payload')
    return 'pending'
  },
})
const mail = httpTarget({
  name: 'mail',
  payload: z.object({ to: z.email() }),
  submit: { url: 'https://x/' },
  taskId: 'none',
})
const anything = httpTarget({ name: 'anything', submit: { url: 'https://x/' }, taskId: 'none' })

type Payloads = PayloadsOf<readonly [typeof render, typeof mail, typeof anything]>

test('payloads are inferred from the schemas, by target', () => {
  expectTypeOf<keyof Payloads>().toEqualTypeOf<'render' | 'mail' | 'anything'>()
  // What `enqueue` takes is the schema's input: defaults may be left out.
  expectTypeOf<Payloads['render']>().toEqualTypeOf<{
    video: string
    fps?: number | undefined
    tags?: ('a' | 'b')[] | undefined
  }>()
  expectTypeOf<Payloads['mail']>().toEqualTypeOf<{ to: string }>()
  expectTypeOf<Payloads['anything']>().toEqualTypeOf<unknown>()
})

test('enqueue knows the targets and what each takes', () => {
  // Never called: only the compiler reads it.
  const use = async () => {
    const once = await openOnceish({ store: 'jobs.db', targets: [render, mail, anything] })
    await once.enqueue({ target: 'render', payload: { video: 'a' }, priority: 5 })
    await once.enqueue({ target: 'anything', payload: ['whatever'] })
    await once.enqueueMany([
      { target: 'render', payload: { video: 'a', fps: 30 } },
      { target: 'mail', payload: { to: 'x@y.z' } },
    ])
    // @ts-expect-error: a number is no video
    await once.enqueue({ target: 'render', payload: { video: 1 } })
    // @ts-expect-error: a field is missing
    await once.enqueue({ target: 'mail', payload: {} })
    // @ts-expect-error: no such target
    await once.enqueue({ target: 'rendr', payload: {} })
    // @ts-expect-error: the payload of another target
    await once.enqueueMany([{ target: 'mail', payload: { video: 'a' } }])
    const untyped: Onceish = await openOnceish({ config: {} })
    await untyped.enqueue({ target: 'from a file', payload: { any: 'thing' } })
  }
  expectTypeOf(use).returns.resolves.toBeVoid()
})

test('a handler says what it proved in the words that there are', () => {
  const payload = z.object({})
  // @ts-expect-error: a bare id
  defineTarget({ name: 'x', version: '1', payload, invoke: () => 'task-1' })
  // @ts-expect-error: no such answer
  defineTarget({ name: 'x', version: '1', payload, invoke: () => ({ taskId: 't' }), lookup: () => ({ kind: 'maybe' }) })
  // @ts-expect-error: no such state
  defineTarget({ name: 'x', version: '1', payload, invoke: () => ({ taskId: 't' }), status: () => 'done' })
  // @ts-expect-error: no such rung
  defineTarget({ name: 'x', version: '1', payload, invoke: () => ({ taskId: 't' }), policy: { recovery: ['retry'] } })
  // @ts-expect-error: a version is needed
  defineTarget({ name: 'x', payload, invoke: () => ({ taskId: 't' }) })
})
