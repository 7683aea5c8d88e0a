// Targets in code, through the whole product: what a handler returns or throws, and what becomes of the request.
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { parseConfig } from '../../src/config/options.ts'
import {
  AcceptedWithoutIdError,
  BlockedError,
  defineTarget,
  httpTarget,
  InFlightError,
  type Invocation,
  MismatchError,
  NotExecutedError,
  type OpenTargets,
  openOnceish,
  RejectedError,
  type SubmitResult,
} from '../../src/index.ts'
import { createCodeTarget } from '../../src/target/code/code-target.ts'
import { virtualClock } from '../../src/testing.ts'
import { openFakeApi } from '../support/counting-api.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'

const PAYLOAD = z.object({ n: z.number(), tags: z.array(z.string()).default([]) })
type Payload = z.output<typeof PAYLOAD>
const DRAIN = { drain: { horizonMs: 60_000 } }
const KEYED = {
  timeoutMs: 2000,
  idempotency: { rememberedFor: '1h', margin: '5m' },
  retry: { maxAttempts: 2, initialMs: 10, maxMs: 20 },
} as const

type Invoke = (call: Invocation<Payload>) => Promise<SubmitResult | undefined> | SubmitResult | undefined
type CodeOptions = Partial<Omit<Parameters<typeof defineTarget>[0], 'name' | 'invoke' | 'payload'>>

function code(invoke: Invoke, options: CodeOptions = {}) {
  return defineTarget({
    name: 'code',
    version: '1',
    payload: PAYLOAD,
    invoke: invoke as (call: Invocation<Payload>) => Promise<SubmitResult>,
    policy: KEYED,
    ...options,
  } as Parameters<typeof defineTarget>[0] & { name: 'code' })
}

async function open(
  targets: OpenTargets<readonly ReturnType<typeof code>[]>['targets'],
  path = join(tempDir(), 'jobs.db'),
) {
  const once = await openOnceish({ store: path, targets, worker: { leaseMs: 3000, graceMs: 500 } })
  onTestFinished(() => once.close())
  return once
}

async function run(invoke: Invoke, options: CodeOptions = {}) {
  const once = await open([code(invoke, options)])
  const { requestId } = await once.enqueue({ target: 'code', payload: { n: 1 } })
  await once.startWorker(DRAIN).done
  const request = await once.get(requestId)
  if (request === null) throw new Error('the request is gone')
  return { once, request, requestId }
}

test('a handler gets the parsed payload, a key that stays, and facts; what it returns is the task', async () => {
  const seen: Invocation<Payload>[] = []
  const { request } = await run((call) => {
    seen.push(call)
    return { taskId: 17n }
  })
  expect(request).toMatchObject({ state: 'submitted', taskId: '17' })
  expect(seen).toHaveLength(1)
  expect(seen[0]).toMatchObject({
    payload: { n: 1, tags: [] },
    requestId: request.requestId,
    generation: 1,
    priority: 0,
  })
  expect(seen[0]?.key).toMatch(/^[0-9a-f-]{36}$/)
  expect(seen[0]?.signal.aborted).toBe(false)
})

test.each<[string, Invoke, string, string | null, number]>([
  ['rejected', () => Promise.reject(new RejectedError('no such voice')), 'dead', 'rejected', 1],
  [
    'not executed, until the budget is spent',
    () => Promise.reject(new NotExecutedError('503')),
    'dead',
    'attempts_spent',
    2,
  ],
  ['a mismatch', () => Promise.reject(new MismatchError('another body')), 'held', 'mismatch', 1],
  ['blocked', () => Promise.reject(new BlockedError('401')), 'ready', 'blocked', 0],
])('what it throws says %s', async (_, invoke, state, reason, attempts) => {
  const { once, request } = await run(invoke)
  expect(request).toMatchObject({ state, reason, attempts })
  expect((await once.status()).targets['code']?.paused).toBe(reason === 'blocked')
})

test.each<[string, Invoke, string]>([
  ['throws a string', () => Promise.reject('boom'), 'boom'],
  [
    'throws at once',
    () => {
      throw new TypeError('undefined is not a function')
    },
    'TypeError: undefined is not a function',
  ],
  ['throws an error of an API client', () => Promise.reject(new Error('socket hang up')), 'socket hang up'],
  ['throws nothing at all', () => Promise.reject(undefined), 'undefined'],
])('a handler that %s leaves the request in doubt, with what it said', async (_, invoke, error) => {
  const { request } = await run(invoke, { policy: { timeoutMs: 2000 } })
  expect(request).toMatchObject({ state: 'held', reason: 'opaque' })
  expect(request.taskState?.evidence).toMatchObject({ error, phase: 'unanswered' })
})

test.each<[string, () => unknown, string]>([
  ['nothing', () => undefined, 'invoke returned no { taskId }'],
  ['a bare id', () => 'task-1', 'invoke returned no { taskId }'],
  ['an empty id', () => ({ taskId: '' }), 'invoke returned a taskId that is none: 0 characters'],
  ['an id that has lost digits', () => ({ taskId: 2 ** 60 }), 'invoke returned a taskId that is none: a number'],
])('a handler that returns %s has executed: it is held, and never called again', async (_, answer, note) => {
  let calls = 0
  const { request } = await run(
    () => {
      calls++
      return answer() as SubmitResult
    },
    { policy: { timeoutMs: 2000 } },
  )
  expect(request).toMatchObject({ state: 'held', attempts: 1 })
  expect(request.taskState).toMatchObject({ executed: true, evidence: { note } })
  expect(request.lastError).toContain(note)
  expect(calls).toBe(1)
})

test('where the API gives no ids, returning is enough', async () => {
  const { request } = await run(() => undefined, { policy: { timeoutMs: 2000, taskId: 'none' } })
  expect(request).toMatchObject({ state: 'submitted', taskId: null })
})

test('accepted without an id is replayed under the same key until the id can be read', async () => {
  const keys: (string | null)[] = []
  const once = await open([
    code(
      ({ key }) => {
        keys.push(key)
        if (keys.length === 1) throw new AcceptedWithoutIdError('Ok.')
        if (keys.length === 2) throw new InFlightError('still working', { retryAfterMs: 5 })
        return { taskId: 't1' }
      },
      { policy: KEYED },
    ),
  ])
  const { requestId } = await once.enqueue({ target: 'code', payload: { n: 1 } })
  const worker = once.startWorker()
  expect(await once.waitFor(requestId)).toMatchObject({ state: 'submitted', taskId: 't1' })
  await worker.stop()
  expect(new Set(keys).size).toBe(1)
  expect(keys).toHaveLength(3)
})

test('a handler that never returns is told by its signal, ends in doubt at its deadline, and what it comes to later is kept', async () => {
  let finish: ((result: SubmitResult) => void) | undefined
  const aborted: unknown[] = []
  const once = await open([
    code(
      ({ signal }) => {
        signal.addEventListener('abort', () => aborted.push((signal.reason as Error).message))
        return new Promise((resolve) => {
          finish = resolve
        })
      },
      { policy: { timeoutMs: 300 } },
    ),
  ])
  const { requestId } = await once.enqueue({ target: 'code', payload: { n: 1 } })
  const worker = once.startWorker()
  expect(await once.waitFor(requestId)).toMatchObject({ state: 'held', lastError: expect.stringContaining('300 ms') })
  expect(aborted).toEqual(['no answer within 300 ms'])
  // Nobody saw its end: a miss would have to wait longer.
  expect((await once.get(requestId))?.taskState?.isEndObserved).toBe(false)
  finish?.({ taskId: 'late' })
  await waitFor(async () => (await once.get(requestId))?.state === 'submitted', { what: 'the late answer' })
  expect(await once.get(requestId)).toMatchObject({ taskId: 'late' })
  await worker.stop()
})

test('a lease that no longer covers a call lets it pass: at its start, and where the handler asks', async () => {
  const clock = virtualClock()
  let started = 0
  const target = code(({ ensureLease }) => {
    started++
    if (started === 1) {
      clock.advance(2500) // something long came first
      ensureLease()
    }
    return { taskId: 't' }
  })
  const once = await openOnceish({
    store: join(tempDir(), 'jobs.db'),
    targets: [target],
    clock,
    worker: { leaseMs: 3000 },
  })
  onTestFinished(() => once.close())
  const { requestId } = await once.enqueue({ target: 'code', payload: { n: 1 } })
  const worker = once.startWorker()
  const view = await clock.runUntil(once.waitFor(requestId), { stepMs: 10 })
  await worker.stop()
  expect(view).toMatchObject({ state: 'submitted' })
  expect(started).toBe(2)
  expect((await once.get(requestId))?.events.map(({ kind }) => kind)).toContain('not_executed')
})

test('lookup, cancel and status in code: found, followed to its end, and what cannot be told is asked again', async () => {
  const asked: string[] = []
  const target = code(() => Promise.reject('cut'), {
    policy: { ...KEYED, recovery: ['lookup', 'hold'], lookup: { settleMs: 10, everyMs: 10 }, status: { everyMs: 10 } },
    lookup: ({ key, payload }) => {
      asked.push(`lookup ${key === null ? 'without' : 'with'} key ${JSON.stringify(payload)}`)
      if (asked.length === 1) throw new Error('the list is down')
      if (asked.length === 2) return { kind: 'undetermined', note: 'lagging' }
      return { kind: 'found', taskId: 'found-1' }
    },
    status: ({ taskId }) => (taskId === 'found-1' ? 'succeeded' : 'gone'),
  })
  const once = await open([target])
  const { requestId } = await once.enqueue({ target: 'code', payload: { n: 1 } })
  const worker = once.startWorker()
  expect(await once.waitFor(requestId, { until: 'finished' })).toMatchObject({ state: 'succeeded', taskId: 'found-1' })
  await worker.stop()
  expect(asked).toHaveLength(3)
  expect(asked[0]).toBe('lookup with key {"n":1,"tags":[]}')
})

test('a lookup in code that names a wait with a fraction is asked again, and the worker lives', async () => {
  let asked = 0
  const { request } = await run(() => Promise.reject('cut'), {
    policy: { ...KEYED, recovery: ['lookup', 'hold'], lookup: { settleMs: 10, everyMs: 10 } },
    lookup: () => (++asked === 1 ? { kind: 'undetermined', retryAfterMs: 30.5 } : { kind: 'found', taskId: 'found-1' }),
  })
  expect(request).toMatchObject({ state: 'submitted', taskId: 'found-1' })
})

test("several tasks for one request are a person's to judge", async () => {
  const { request } = await run(() => Promise.reject('cut'), {
    policy: { ...KEYED, recovery: ['lookup', 'hold'], lookup: { settleMs: 0 } },
    lookup: () => ({ kind: 'ambiguous', taskIds: ['a', 'b'] }),
  })
  expect(request).toMatchObject({ state: 'held', reason: 'several_tasks' })
})

test('cancel in code: a request in doubt whose task is found is canceled at the API', async () => {
  const canceled: string[] = []
  const once = await open([
    code(() => Promise.reject('cut'), {
      policy: { ...KEYED, recovery: ['lookup', 'hold'], lookup: { settleMs: 200, everyMs: 50, misses: 50 } },
      lookup: () => (canceling ? { kind: 'found', taskId: 'mine' } : { kind: 'absent' }),
      cancel: ({ taskId }) => {
        canceled.push(taskId)
      },
    }),
  ])
  let canceling = false
  const { requestId } = await once.enqueue({ target: 'code', payload: { n: 1 } })
  const worker = once.startWorker()
  await waitFor(async () => (await once.get(requestId))?.state === 'unknown', { what: 'doubt' })
  await once.cancel(requestId)
  canceling = true
  expect(await once.waitFor(requestId)).toMatchObject({ state: 'canceled' })
  await worker.stop()
  expect(canceled).toEqual(['mine'])
})

test('doubt is settled by the version that made it, and held by another', async () => {
  const leaveDoubt = async (path: string) => {
    const first = await open([code(() => Promise.reject('cut'))], path)
    const { requestId } = await first.enqueue({ target: 'code', payload: { n: 1 } })
    const worker = first.startWorker()
    await waitFor(async () => (await first.get(requestId))?.state === 'unknown', { what: 'doubt' })
    await worker.stop()
    await first.close()
    return requestId
  }
  const recoverBy = async (target: ReturnType<typeof code>) => {
    const path = join(tempDir(), 'jobs.db')
    const requestId = await leaveDoubt(path)
    const again = await open([target], path)
    await again.recover()
    return again.get(requestId)
  }
  expect(await recoverBy(code(() => ({ taskId: 'v1' })))).toMatchObject({ state: 'submitted', taskId: 'v1' })
  const other = code(() => ({ taskId: 'v2' }), { version: '2' })
  expect(await recoverBy(other)).toMatchObject({ state: 'held', reason: 'description_missing' })
})

test('what code comes to after its worker has ended is kept, and taken over by the next', async () => {
  const path = join(tempDir(), 'jobs.db')
  let finish: ((result: SubmitResult) => void) | undefined
  const slow = code(
    () =>
      new Promise((resolve) => {
        finish = resolve
      }),
    { policy: { timeoutMs: 200 } },
  )
  const once = await open([slow], path)
  const { requestId } = await once.enqueue({ target: 'code', payload: { n: 1 } })
  await once.startWorker(DRAIN).done
  expect(await once.get(requestId)).toMatchObject({ state: 'held' })
  finish?.({ taskId: 'late' })
  await waitFor(() => readdirSync(dirname(path)).some((name) => name.endsWith('.ndjson')), {
    what: 'the spilled answer',
  })
  const next = once.startWorker()
  await waitFor(async () => (await once.get(requestId))?.state === 'submitted', { what: 'the late answer' })
  expect(await once.get(requestId)).toMatchObject({ taskId: 'late' })
  await next.stop()
})

test('a policy that promises more than that of the attempt settles nothing by it', async () => {
  const clock = virtualClock()
  const path = join(tempDir(), 'jobs.db')
  let calls = 0
  const cut = (rememberedFor: string) =>
    code(
      () => {
        calls++
        throw new Error('cut')
      },
      { policy: { ...KEYED, idempotency: { rememberedFor, margin: '5m' } } },
    )
  const openAs = (rememberedFor: string) =>
    openOnceish({ store: path, targets: [cut(rememberedFor)], worker: { leaseMs: 3000 }, clock })
  const first = await openAs('1h')
  const { requestId } = await first.enqueue({ target: 'code', payload: { n: 1 } })
  const worker = first.startWorker()
  await waitFor(async () => (await first.get(requestId))?.state === 'unknown', { what: 'doubt' })
  await worker.stop()
  await first.close()
  clock.advance(5 * 3_600_000)
  const second = await openAs('30d')
  onTestFinished(() => second.close())
  const before = calls
  await clock.runUntil(second.recover())
  expect(calls).toBe(before)
  expect(await second.get(requestId)).toMatchObject({ state: 'held', reason: 'key_window_closed' })
})

test('code that gives up when it is told to has no observed end', async () => {
  const { request } = await run(
    ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('gave up')))),
    { policy: { timeoutMs: 100 } },
  )
  expect(request).toMatchObject({ state: 'held', lastError: expect.stringContaining('gave up') })
  expect(request.taskState?.isEndObserved).toBe(false)
})

test('while code runs on, no miss of its lookup counts', async () => {
  let asked = 0
  let calls = 0
  let finish: ((result: SubmitResult) => void) | undefined
  const once = await open([
    code(
      () => {
        calls++
        return new Promise((resolve) => {
          finish = resolve
        })
      },
      {
        policy: {
          timeoutMs: 100,
          idempotency: {},
          lookup: { settleMs: 20, everyMs: 20, misses: 1, missMeans: 'absent', remembers: '1h' },
        },
        lookup: () => {
          asked++
          return { kind: 'absent' }
        },
      },
    ),
  ])
  const { requestId } = await once.enqueue({ target: 'code', payload: { n: 1 } })
  const worker = once.startWorker()
  await waitFor(() => asked > 8, { what: 'lookups' })
  expect(calls).toBe(1)
  finish?.({ taskId: 'late' })
  expect(await once.waitFor(requestId)).toMatchObject({ state: 'submitted', taskId: 'late' })
  await worker.stop()
})

test.each<[string, () => unknown]>([
  [
    'a result whose taskId cannot be read',
    () =>
      Object.defineProperty({}, 'taskId', {
        get: () => {
          throw new Error('no')
        },
      }),
  ],
])('%s has executed all the same', async (_, answer) => {
  const { request } = await run(() => answer() as SubmitResult, { policy: { timeoutMs: 2000 } })
  expect(request).toMatchObject({ state: 'held' })
  expect(request.taskState?.executed).toBe(true)
})

test.each<[string, () => unknown]>([
  ['a message that is no text', () => Object.assign(new Error('x'), { message: { deep: 1 } })],
  ['a name that is a symbol', () => Object.assign(new Error('x'), { name: Symbol('n') })],
  [
    'a message that throws',
    () =>
      Object.defineProperty(new Error('x'), 'message', {
        get: () => {
          throw new Error('no')
        },
      }),
  ],
  [
    'a cycle',
    () => {
      const cycle: Record<string, unknown> = {}
      cycle['self'] = cycle
      return cycle
    },
  ],
])('an error with %s is doubt like any other, in time and late', async (_, thrown) => {
  const { request } = await run(() => Promise.reject(thrown()), { policy: { timeoutMs: 2000 } })
  expect(request).toMatchObject({ state: 'held', reason: 'opaque' })
  let fail: ((error: unknown) => void) | undefined
  const late = await open([
    code(
      () =>
        new Promise((_resolve, reject) => {
          fail = reject
        }),
      { policy: { timeoutMs: 100 } },
    ),
  ])
  const { requestId } = await late.enqueue({ target: 'code', payload: { n: 1 } })
  const worker = late.startWorker()
  await late.waitFor(requestId)
  fail?.(thrown())
  await worker.stop()
})

test('ensureLease asks for what is left of the call, not for a whole one', async () => {
  const asked: (number | undefined)[] = []
  const given = code(
    ({ ensureLease }) => {
      ensureLease()
      return { taskId: 't' }
    },
    { policy: { timeoutMs: 1500 } },
  )
  const { codeTargets } = parseConfig({ targets: [given] }, { path: null, baseDir: '/' })
  const target = createCodeTarget(codeTargets['code'] as (typeof codeTargets)[string])
  const request = { requestId: 1, logicalHash: 'h', generation: 1, priority: 0 }
  const input = { payload: '{"n":1}', key: null, request }
  const gate = (neededMs?: number) => {
    asked.push(neededMs)
    return null
  }
  expect(await target.invoke(target.prepare(input), { input, gate })).toMatchObject({ kind: 'accepted' })
  expect(asked).toEqual([undefined, expect.any(Number)])
  expect(asked[1]).toBeLessThanOrEqual(1500)
})

test('where the key is the id, a handler need not return it', async () => {
  const { request } = await run(() => undefined, {
    policy: { ...KEYED, idempotency: { clientId: true, rememberedFor: '1h', margin: '5m' } },
  })
  expect(request.state).toBe('submitted')
  expect(request.taskId).toBe(request.taskState?.idempotencyKey)
})

test('where the API gives no ids, "exists" and ours is enough too', async () => {
  const { request } = await run(() => ({ kind: 'exists', ours: true, taskId: null }), {
    policy: { timeoutMs: 2000, taskId: 'none' },
  })
  expect(request).toMatchObject({ state: 'submitted', taskId: null })
})

test('an "exists" that is not ours is held', async () => {
  const { request } = await run(() => ({ kind: 'exists', ours: false, taskId: 'theirs' }))
  expect(request).toMatchObject({ state: 'held', reason: 'exists_not_ours' })
})

test('secrets that the target names are redacted from what it throws', async () => {
  const { request } = await run(() => Promise.reject(new Error('bad token s3cr3t-token')), {
    secrets: ['s3cr3t-token', undefined],
    policy: { timeoutMs: 2000 },
  })
  expect(JSON.stringify(request)).not.toContain('s3cr3t-token')
})

test('code and data work side by side in one worker', async () => {
  const api = await openFakeApi({ kind: 'keyed' })
  const targets = [
    code(({ payload }) => ({ taskId: `code-${payload.n}` })),
    httpTarget({
      name: 'data',
      payload: z.object({ text: z.string() }),
      submit: { url: api.url, timeoutMs: 1000 },
      idempotency: { header: 'Idempotency-Key', rememberedFor: '1h' },
      taskId: '{% $response.body.id %}',
    }),
  ] as const
  const once = await openOnceish({ store: join(tempDir(), 'jobs.db'), targets })
  onTestFinished(() => once.close())
  const made = await once.enqueueMany([
    { target: 'code', payload: { n: 1 } },
    { target: 'data', payload: { text: 'a' } },
  ])
  await once.startWorker(DRAIN).done
  const tasks = await Promise.all(made.map(async ({ requestId }) => (await once.get(requestId))?.taskId))
  expect(tasks).toEqual(['code-1', 'task-1'])
  expect(api.effects).toHaveLength(1)
})

test('code that is limited tells its whole target to wait, and burns no attempt', async () => {
  const clock = virtualClock()
  const calls: number[] = []
  const target = code(
    () => {
      calls.push(clock.wallNow())
      if (calls.length === 1) throw new NotExecutedError('too fast', { limited: true, retryAfterMs: 60_000 })
      return { taskId: `t${calls.length}` }
    },
    { policy: { ...KEYED, limits: { bucket: 'account' }, rateLimit: { maxWaitMs: '30s', scope: 'target' } } },
  )
  const buckets = { account: { rate: '100/s', concurrency: 10 } }
  const once = await openOnceish({ store: join(tempDir(), 'jobs.db'), targets: [target], buckets, clock })
  onTestFinished(() => once.close())
  await once.enqueueMany([1, 2].map((n) => ({ target: 'code', payload: { n } })))
  await once.startWorker({ concurrency: 1, drain: { horizonMs: 0 } }).done
  expect(await once.status()).toMatchObject({
    states: { scheduled: 1, ready: 1 },
    targets: { code: { parked: 1, waits: [{ scope: 'target', name: 'code', toldBy: 'retryAfterMs: 60000' }] } },
  })
  const until = (calls[0] ?? 0) + 60_000
  await clock.runUntil(once.startWorker({ drain: { horizonMs: 600_000 } }).done)
  expect(calls.map((at) => at >= until)).toEqual([false, true, true])
  expect(await once.get(1)).toMatchObject({ state: 'submitted', attempts: 1 })
})

test('a bucket that the config does not name is refused, with its place in the code', () => {
  const target = code(() => ({ taskId: 't' }), { policy: { limits: { bucket: 'acount' } } })
  const given = { store: 'x.db', targets: [target], buckets: { account: {} } }
  expect(() => parseConfig(given, { path: null, baseDir: '/' })).toThrow(
    /targets\.code\.policy\.limits\.bucket: buckets names no "acount"; did you mean "account"\?/,
  )
})
