// What each bad use of the library answers: a code, which thing, and what to do.
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineTarget, httpTarget, openOnceish } from '../../src/index.ts'
import { tempDir } from '../support/temp-dir.ts'

const target = defineTarget({
  name: 'echo',
  version: '1',
  payload: z.object({ n: z.number(), at: z.date().optional(), list: z.array(z.object({ x: z.string() })).optional() }),
  invoke: ({ payload }) => ({ taskId: `t${payload.n}` }),
})

async function open(path = join(tempDir(), 'jobs.db')) {
  const once = await openOnceish({ store: path, targets: [target] })
  onTestFinished(() => once.close())
  return once
}

test('a closed store says so, whatever is asked of it; closing it again does nothing', async () => {
  const once = await open()
  await once.close()
  await once.close()
  const closed = expect.objectContaining({ code: 'STORE_CLOSED' })
  await expect(once.enqueue({ target: 'echo', payload: { n: 1 } })).rejects.toEqual(closed)
  await expect(once.enqueueMany([{ target: 'echo', payload: { n: 1 } }])).rejects.toEqual(closed)
  await expect(once.get(1)).rejects.toEqual(closed)
  await expect(once.status()).rejects.toEqual(closed)
  await expect(once.waitFor(1)).rejects.toEqual(closed)
  await expect(once.resolve(1, { kind: 'abandon' })).rejects.toEqual(closed)
  expect(() => once.startWorker()).toThrow(closed)
  await expect(once.recover()).rejects.toEqual(closed)
  // @ts-expect-error: no connection is asked about before the store
  expect(() => once.enqueueIn(null, { target: 'echo', payload: { n: 1 } })).toThrow(closed)
})

test('close stops the workers that still run, with what they were told', async () => {
  const once = await open()
  const { requestId } = await once.enqueue({ target: 'echo', payload: { n: 1 } })
  const worker = once.startWorker()
  await once.waitFor(requestId)
  await once.close()
  expect(await worker.done).toMatchObject({ calls: 1 })
})

test('nothing starts while it closes, nor with a concurrency that is none', async () => {
  const once = await open()
  for (const concurrency of [0, -3, 1.5, Number.NaN]) {
    expect(() => once.startWorker({ concurrency })).toThrow(expect.objectContaining({ code: 'USAGE' }))
  }
  const closing = once.close()
  expect(() => once.startWorker()).toThrow(expect.objectContaining({ code: 'STORE_CLOSED' }))
  await closing
})

test('what the caller does with its object afterwards is no part of the request', async () => {
  const once = await open()
  const payload = { n: 0 }
  const made: Promise<{ requestId: number }>[] = []
  for (payload.n = 1; payload.n <= 3; payload.n++) made.push(once.enqueue({ target: 'echo', payload }))
  const many = once.enqueueMany([{ target: 'echo', payload }])
  payload.n = 99
  await many
  const ids = (await Promise.all(made)).map(({ requestId }) => requestId)
  expect(new Set(ids).size).toBe(3)
  const payloads = await Promise.all(
    [...ids, ...(await many).map(({ requestId }) => requestId)].map((id) => once.get(id)),
  )
  expect(payloads.map((request) => request?.payload)).toEqual([1, 2, 3, 4].map((n) => ({ n })))
})

test('two opens of one file are two processes in one: both enqueue, each request is called once', async () => {
  const path = join(tempDir(), 'jobs.db')
  const [one, two] = [await open(path), await open(path)]
  const made = await Promise.all(
    Array.from({ length: 100 }, (_, n) =>
      (n % 2 === 0 ? one : two).enqueue({ target: 'echo', payload: { n: n - (n % 2) } }),
    ),
  )
  expect(new Set(made.map(({ requestId }) => requestId)).size).toBe(50)
  const drain = { horizonMs: 1000 }
  const reports = await Promise.all([one.startWorker({ drain }).done, two.startWorker({ drain }).done])
  expect(reports.reduce((calls, report) => calls + report.calls, 0)).toBe(50)
})

test('a payload of the wrong type names its path; nothing is queued', async () => {
  const once = await open()
  const wrong = JSON.parse('{ "n": "1", "list": [{ "x": "a" }, { "x": 2 }] }')
  await expect(once.enqueue({ target: 'echo', payload: wrong })).rejects.toMatchObject({
    code: 'PAYLOAD_INVALID',
    message: expect.stringMatching(/target "echo".*\npayload\.n: .*\npayload\.list\[1\]\.x: /s),
    details: { issues: [{ path: 'payload.n' }, { path: 'payload.list[1].x' }] },
  })
  await expect(once.enqueue({ target: 'echo', payload: { n: 1, at: new Date(0) } })).rejects.toMatchObject({
    code: 'PAYLOAD_NOT_CANONICAL',
    message: expect.stringContaining('at'),
  })
  // @ts-expect-error: an unknown name
  await expect(once.enqueue({ target: 'ecco', payload: { n: 1 } })).rejects.toMatchObject({
    code: 'TARGET_UNKNOWN',
    message: expect.stringContaining('echo'),
  })
  // @ts-expect-error: nothing
  await expect(once.enqueue(undefined)).rejects.toMatchObject({ code: 'REQUEST_INVALID' })
  expect(await once.list()).toEqual([])
})

test('an unknown field of a request is refused by its name, in each way to enqueue', async () => {
  const once = await open()
  const misspelled = { target: 'echo' as const, payload: { n: 1 }, orderingkey: 'k' }
  const refused = {
    code: 'REQUEST_INVALID',
    message: expect.stringMatching(/no field "orderingkey".*mean .?orderingKey/),
  }
  await expect(once.enqueue(misspelled)).rejects.toMatchObject(refused)
  await expect(once.enqueueMany([{ target: 'echo', payload: { n: 2 } }, misspelled])).rejects.toMatchObject(refused)
  expect(await once.list()).toEqual([])
})

test('one bad payload of many writes none', async () => {
  const once = await open()
  const requests = [1, 2, 'three'].map((n) => ({ target: 'echo' as const, payload: { n: n as number } }))
  await expect(once.enqueueMany(requests)).rejects.toMatchObject({ code: 'PAYLOAD_INVALID' })
  expect(await once.list()).toEqual([])
})

test('a schema that takes time is waited for', async () => {
  const slow = defineTarget({
    name: 'slow',
    version: '1',
    payload: z.object({ n: z.number() }).refine(async ({ n }) => n > 0),
    invoke: () => ({ taskId: 't' }),
  })
  const once = await openOnceish({ store: join(tempDir(), 'jobs.db'), targets: [slow] })
  onTestFinished(() => once.close())
  await expect(once.enqueue({ target: 'slow', payload: { n: 0 } })).rejects.toMatchObject({ code: 'PAYLOAD_INVALID' })
  expect(await once.enqueue({ target: 'slow', payload: { n: 1 } })).toMatchObject({ deduplicated: false })
})

test('every fault of every target is told at once, in code as in data', async () => {
  const opening = openOnceish({
    store: join(tempDir(), 'jobs.db'),
    worker: { leaseMs: 2000 },
    targets: [
      defineTarget({
        name: 'a',
        version: '',
        payload: z.object({}),
        // @ts-expect-error: no function
        invoke: 'call me',
        // @ts-expect-error: a typing mistake
        policy: { timeoutMs: '90', idempotencie: {}, lookup: {} },
      }),
      defineTarget({
        name: 'b',
        version: '1',
        payload: z.object({}),
        invoke: () => ({ taskId: 't' }),
        policy: {
          timeoutMs: '1h',
          idempotency: { rememberedFor: '2h', format: { kind: 'hex', length: 8 } },
          recovery: ['replay'],
        },
      }),
      // @ts-expect-error: no URL
      httpTarget({ name: 'c', submit: {}, taskId: 'none' }),
      // @ts-expect-error: no schema
      defineTarget({ name: 'd', version: '1', payload: {}, invoke: () => ({ taskId: 't' }) }),
    ],
  })
  const error = await opening.catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'CONFIG_INVALID' })
  const { message } = error as Error
  for (const part of [
    'targets.a.version',
    'targets.a.invoke: expected a function',
    'targets.a.policy.idempotencie: unknown key; did you mean "idempotency"',
    'targets.b.policy.recovery: must end in hold',
    'targets.b.policy.idempotency.format.length',
    'targets.b.policy.idempotency.margin',
    'targets.b.policy.retry',
    'worker.leaseMs: 2000 is shorter than a call: at least 3600500, which is targets.b.policy.timeoutMs',
    'targets.c.submit.url: is required',
    'targets.d.payload: expected a schema',
  ]) {
    expect(message).toContain(part)
  }
})

test('what the rules say is told beside what has the wrong shape, and a typing mistake in the options is refused', async () => {
  const bad = defineTarget({
    name: 'e',
    version: '',
    payload: z.object({}),
    invoke: () => ({ taskId: 't' }),
    lookup: () => ({ kind: 'absent' }),
    policy: { recovery: ['replay'], dedupe: 'live', lookup: { by: 'key' } },
  })
  const options = { store: join(tempDir(), 'jobs.db'), targets: [bad], wroker: {} } as const
  const error = await openOnceish(options).catch((thrown: unknown) => thrown)
  const { message } = error as Error
  for (const part of [
    'wroker: unknown key; did you mean "worker"',
    'targets.e.version',
    'targets.e.policy.recovery: must end in hold',
    'targets.e.policy.dedupe: live needs a lookup by key',
    'targets.e.policy.lookup.by: is key, and the target has none',
  ]) {
    expect(message).toContain(part)
  }
})

test.each([
  ['no options', undefined],
  ['no targets', { store: 'x.db' }],
  ['no list of targets', { store: 'x.db', targets: {} }],
  ['no target', { store: 'x.db', targets: [null] }],
  ['a target that was not made', { config: { targets: { x: { name: 'x', invoke: () => ({ taskId: 't' }) } } } }],
])('%s is a fault of the config, not of ours', async (_, options) => {
  await expect(openOnceish(options as never)).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
})

test('names that every object has are names like others', async () => {
  const named = ['constructor', 'toString'].map((name) =>
    defineTarget({ name, version: '1', payload: z.object({}), invoke: () => ({ taskId: name }) }),
  )
  const once = await openOnceish({ store: join(tempDir(), 'jobs.db'), targets: named })
  onTestFinished(() => once.close())
  const { requestId } = await once.enqueue({ target: 'toString', payload: {} })
  await once.startWorker({ drain: { horizonMs: 1000 } }).done
  expect(await once.get(requestId)).toMatchObject({ state: 'submitted', taskId: 'toString' })
  await expect(once.enqueue({ target: 'valueOf', payload: {} })).rejects.toMatchObject({ code: 'TARGET_UNKNOWN' })
})

test('two targets of one name are refused', async () => {
  const opening = openOnceish({ store: join(tempDir(), 'jobs.db'), targets: [target, target] })
  await expect(opening).rejects.toMatchObject({ code: 'CONFIG_INVALID', message: expect.stringContaining('"echo"') })
})

test('a new deadline that is no instant is refused, to one and to many', async () => {
  const once = await openOnceish({ store: join(tempDir(), 'jobs.db'), targets: [target] })
  onTestFinished(() => once.close())
  const never = { expiresAt: 'tomorrow' as unknown as number }
  const resolution = { kind: 'retry_accepting_duplicates', ...never } as const
  const refused = { code: 'REQUEST_INVALID', message: expect.stringMatching(/^expiresAt is epoch milliseconds/) }
  await expect(once.retry(1, never)).rejects.toMatchObject(refused)
  await expect(once.retryWhere({ ids: [1] }, never)).rejects.toMatchObject(refused)
  await expect(once.resolve(1, resolution)).rejects.toMatchObject(refused)
  await expect(once.resolveWhere({ ids: [1] }, resolution)).rejects.toMatchObject(refused)
})
