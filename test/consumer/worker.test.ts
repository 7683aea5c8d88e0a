import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { steadyTime, systemClock } from '../../src/core/clock.ts'
import { OnceishError } from '../../src/core/errors.ts'
import { defineTarget, type Onceish, openOnceish } from '../../src/index.ts'
import { openStore } from '../../src/store/open-store.ts'
import { writeSpill } from '../../src/store/spill.ts'
import type { Store } from '../../src/store/store.ts'
import { ALIKE } from '../support/alike.ts'
import { type Api, configFor, type RawConfig, startApi } from '../support/api.ts'
import { accepted, answer, OPAQUE, openWorld, unknown } from '../support/store.ts'
import { spillsIn } from '../support/store-files.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN, dryRunOf, workOver } from '../support/worker.ts'

let api: Api
let lastN = 0
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

/** Unique over this file, so that the shared oracle can tell requests apart. */
const fresh = () => ++lastN

async function open(overrides: RawConfig = {}, path = join(tempDir(), 'jobs.db')): Promise<Onceish> {
  const once = await openOnceish({ config: { ...configFor(api.origin, overrides), store: path } })
  onTestFinished(() => once.close())
  return once
}

async function effectsOf(n: number) {
  return (await api.oracle()).effects.filter((effect) => effect.n === n)
}

async function callsOf(n: number) {
  return (await api.oracle()).calls.filter((call) => call.n === n)
}

test('with concurrency 1 the calls go out one by one, by priority, due time and id', async () => {
  const once = await open()
  const wanted: { n: number; priority: number; runAt: number }[] = []
  for (let i = 0; i < 40; i++) wanted.push({ n: fresh(), priority: i % 3, runAt: 1000 + ((i * 7) % 5) })
  await once.enqueueMany(wanted.map(({ n, ...request }) => ({ target: 'renders', payload: { n }, ...request })))
  const worker = once.startWorker({ ...DRAIN, concurrency: 1 })
  await worker.done
  const order = wanted.toSorted((a, b) => b.priority - a.priority || a.runAt - b.runAt || a.n - b.n).map(({ n }) => n)
  const called = (await api.oracle()).calls.map((call) => call.n).filter((n) => order.includes(n as number))
  expect(called).toEqual(order)
})

/** Its calls are over at once, on a machine however busy. */
async function openInstant() {
  const target = defineTarget({
    name: 'instant',
    version: '1',
    invoke: async ({ key }) => ({ kind: 'accepted', taskId: key ?? '' }),
    payload: z.object({ n: z.number() }),
    policy: { idempotency: { rememberedFor: '1h', margin: '5m' } },
  })
  const once = await openOnceish({ store: join(tempDir(), 'jobs.db'), targets: [target] })
  onTestFinished(() => once.close())
  return once
}

test('no turn is made for a queue that has no free slot', async () => {
  const once = await openInstant()
  await once.enqueueMany(Array.from({ length: 20 }, (_, n) => ({ target: 'instant', payload: { n } })))
  const worker = once.startWorker({ ...DRAIN, concurrency: 1 })
  await worker.done
  // One before the first answer, and one with each.
  expect(worker.counters().turns).toBe(21)
})

test('however many slots there are, a turn claims and settles a bounded number', async () => {
  const once = await openInstant()
  await once.enqueueMany(Array.from({ length: 300 }, (_, n) => ({ target: 'instant', payload: { n } })))
  const [claimed, settled] = [[0], [0]]
  const worker = once.startWorker({
    ...DRAIN,
    concurrency: 300,
    onProgress: ({ calls, settled: { submitted = 0 } }) => {
      claimed.push(calls)
      settled.push(submitted)
    },
  })
  await worker.done
  const largest = (counts: number[]) => Math.max(...counts.slice(1).map((count, i) => count - (counts[i] ?? 0)))
  expect(claimed.at(-1)).toBe(300)
  expect(largest(claimed)).toBeLessThanOrEqual(64)
  expect(largest(settled)).toBeLessThanOrEqual(64)
})

test('a worker whose event loop was blocked beyond its lease does not write; another makes the one call', async () => {
  const path = join(tempDir(), 'jobs.db')
  const blocked = await open({}, path)
  const n = fresh()
  await blocked.enqueue({ target: 'messages', payload: { n } })
  let blocks = 1
  const worker = blocked.startWorker({
    ...DRAIN,
    onProgress: ({ calls }) => {
      // Right after the claim's commit, before the dial can end.
      if (calls === 0 || blocks-- !== 1) return
      const until = performance.now() + 1700
      while (performance.now() < until);
    },
  })
  const report = await worker.done
  expect(report.calls).toBeGreaterThan(1)
  expect(await callsOf(n)).toHaveLength(1)
  const { events, state, attempts } = (await blocked.get(1)) ?? {}
  expect(state).toBe('submitted')
  expect(attempts).toBe(1)
  expect(events?.map((event) => event.kind)).toContain('not_executed')
})

test('answers that the store cannot take are kept, spilled, and settled when it can again; nothing is claimed meanwhile', async () => {
  const path = join(tempDir(), 'jobs.db')
  const store = await openStore(path, { create: true, now: Date.now() })
  onTestFinished(() => store.close())
  const once = await open({}, path)
  const [first, second] = [fresh(), fresh()]
  await once.enqueue({ target: 'messages', payload: { n: first }, priority: 1 })
  await once.enqueue({ target: 'messages', payload: { n: second } })
  let isFull = false
  let claimsWhileFull = 0
  const full: Store = {
    ...store,
    turn: (input) => {
      if (input.results.length > 0 && claimsWhileFull === 0) isFull = true
      if (!isFull) return store.turn(input)
      claimsWhileFull += input.claim.slots > 0 ? 1 : 0
      return Promise.reject(new OnceishError('STORE_FULL', 'no space'))
    },
  }
  const worker = await workOver(full, configFor(api.origin), { concurrency: 1 })
  onTestFinished(async () => {
    isFull = false
    await worker.close()
  })
  const spills = () => spillsIn(dirname(path))
  await waitFor(() => spills().length === 1, { what: 'the spill file' })
  expect(await callsOf(second)).toEqual([])
  expect(claimsWhileFull).toBeLessThanOrEqual(1) // the turn that failed first
  isFull = false
  await waitFor(async () => (await once.status()).states.submitted === 2, { what: 'both to be submitted' })
  await waitFor(() => spills().length === 0, { what: 'the spill file to go' })
  expect(await effectsOf(first)).toHaveLength(1)
})

test('what a dead worker has spilled is read back as late answers', async () => {
  const path = join(tempDir(), 'jobs.db')
  const once = await open({}, path)
  const n = fresh()
  await once.enqueue({ target: 'messages', payload: { n } })
  const store = await openStore(path, { create: false, now: Date.now() })
  const { incarnation } = await store.facts()
  const claimed = await store.turn({
    now: () => Date.now() - 10_000, steady: steadyTime(systemClock), worker: { name: 'dead', boot: 'dead' }, leaseMs: 1000, results: [], renewals: [],
    reconciliations: [],
    trackings: [],
    check: { slots: 0, room: new Map() },
    policyOf: () => undefined,
    random: Math.random,
    claim: {
      ...ALIKE,
      slots: 1,
      targets: [{ name: 'messages', policy: OPAQUE }],
      prepare: () => ({ kind: 'prepared', key: null, targetVersion: 'v', call: { method: 'POST', url: 'http://127.0.0.1/', headers: {}, body: '', account: null } }),
    },
  }) // biome-ignore format: one turn of a worker that is gone
  await store.close()
  const call = claimed.calls[0]
  if (call === undefined) throw new Error('nothing was claimed')
  writeSpill({ storePath: path, incarnation, boot: 'dead' }, [answer(call, accepted('SM-spilled'))])
  writeSpill({ storePath: path, incarnation: 'another store', boot: 'other' }, [answer(call, accepted('SM-foreign'))])
  const worker = once.startWorker(DRAIN)
  await worker.done
  expect(await once.get(1)).toMatchObject({ state: 'submitted', taskId: 'SM-spilled' })
  const left = spillsIn(dirname(path))
  expect(left).toEqual([expect.stringContaining('.spill-other.ndjson')])
  expect(await callsOf(n)).toEqual([])
})

test('stop waits for the calls in flight and claims no more', async () => {
  const once = await open({ worker: { concurrency: 1, leaseMs: 1500, graceMs: 5000 } })
  const [first, second] = [fresh(), fresh()]
  await once.enqueue({ target: 'messages', payload: { n: first, fault: 'slow:300' }, priority: 1 })
  await once.enqueue({ target: 'messages', payload: { n: second } })
  const worker = once.startWorker()
  await waitFor(async () => (await callsOf(first)).length === 1, { what: 'the first call' })
  await worker.stop()
  expect((await once.status()).states).toEqual({ submitted: 1, ready: 1 })
  expect(await callsOf(second)).toEqual([])
})

test('a call that outlasts the grace ends in doubt, on record', async () => {
  const once = await open({ worker: { concurrency: 1, leaseMs: 1500, graceMs: 50 } })
  const n = fresh()
  await once.enqueue({ target: 'messages', payload: { n, fault: 'slow:800' } })
  const worker = once.startWorker()
  await waitFor(async () => (await callsOf(n)).length === 1, { what: 'the call' })
  await worker.stop()
  expect(await once.get(1)).toMatchObject({ state: 'unknown', taskState: { leaseOwner: null } })
})

test('refused credentials pause the target with its queue whole, and resume goes on', async () => {
  const once = await open({ worker: { concurrency: 1, leaseMs: 1500, graceMs: 1000 } })
  const [first, second] = [fresh(), fresh()]
  await once.enqueue({ target: 'renders', payload: { n: first, fault: '401' }, priority: 1 })
  await once.enqueue({ target: 'renders', payload: { n: second } })
  const blocked = once.startWorker(DRAIN)
  await blocked.done
  expect(await once.status()).toMatchObject({
    states: { ready: 2 },
    targets: { renders: { paused: true, pauseReason: 'blocked: HTTP 401' } },
  })
  expect(await callsOf(second)).toEqual([])
  expect(await once.resume('renders')).toBe(true)
  const resumed = once.startWorker(DRAIN)
  await resumed.done
  expect((await once.status()).states).toEqual({ submitted: 2 })
})

test('another process’s enqueue wakes an idle worker, which has not turned meanwhile', async () => {
  const path = join(tempDir(), 'jobs.db')
  const store = await openStore(path, { create: true, now: Date.now() })
  onTestFinished(() => store.close())
  let turns = 0
  let polls = 0
  const counted: Store = {
    ...store,
    turn: (input) => {
      turns++
      return store.turn(input)
    },
    watchChanges: (targets) => {
      const changed = store.watchChanges(targets)
      return (now) => {
        polls++
        return changed(now)
      }
    },
  }
  const worker = await workOver(counted, configFor(api.origin))
  onTestFinished(async () => {
    await worker.close()
  })
  await waitFor(() => polls > 20, { what: 'the worker to be idle' })
  expect(turns).toBe(1)
  const other = await open({}, path)
  const n = fresh()
  await other.enqueue({ target: 'renders', payload: { n } })
  await waitFor(async () => (await other.status()).states.submitted === 1, { what: 'the request to be submitted' })
})

test('a request that is due later is called then, without being asked', async () => {
  const once = await open()
  const n = fresh()
  const runAt = Date.now() + 300
  await once.enqueue({ target: 'renders', payload: { n }, runAt })
  const worker = once.startWorker(DRAIN)
  await worker.done
  const [call] = await callsOf(n)
  expect(call?.at).toBeGreaterThanOrEqual(runAt)
})

test('a payload that does not fit the description is dead without a call, and the others go on', async () => {
  const once = await open({
    targets: { renders: { submit: { url: `${api.origin}/v1/renders?template={% $payload.template %}` } } },
  })
  const [broken, good] = [fresh(), fresh()]
  await once.enqueue({ target: 'renders', payload: { n: broken } })
  await once.enqueue({ target: 'renders', payload: { n: good, template: 'a&b' } })
  const worker = once.startWorker(DRAIN)
  await worker.done
  expect(await once.get(1)).toMatchObject({ state: 'dead', reason: 'render_failed', attempt: 0 })
  expect(await callsOf(broken)).toEqual([])
  expect(await once.get(2)).toMatchObject({ state: 'submitted' })
})

test('canceling a request in doubt cancels the task that recovery finds at the API', async () => {
  const once = await open()
  const n = fresh()
  await once.enqueue({ target: 'parcels', payload: { n, fault: 'hang_after' } })
  const worker = once.startWorker(DRAIN)
  await waitFor(async () => (await effectsOf(n)).length === 1, { what: 'the effect' })
  expect(await once.cancel(1)).toMatchObject({ kind: 'applied', view: { state: 'invoking' } })
  await worker.done
  expect(await once.get(1)).toMatchObject({ state: 'canceled' })
  const [effect] = await effectsOf(n)
  expect((await api.oracle()).cancellations.map(({ taskId }) => taskId)).toContain(effect?.taskId)
  expect(await once.enqueue({ target: 'parcels', payload: { n, fault: 'hang_after' } })).toMatchObject({
    deduplicated: false,
  })
})

test('an unset name that a target needs keeps the worker from starting', async () => {
  const once = await open({
    targets: { renders: { submit: { headers: { authorization: "{% 'Bearer ' & $env.ONCEISH_TEST_UNSET %}" } } } },
  })
  expect(() => once.startWorker()).toThrow(expect.objectContaining({ code: 'ENV_MISSING' }))
  const worker = once.startWorker({ ...DRAIN, targets: ['messages'] })
  await worker.done
})

test('bytes are frozen with the first attempt: a replay repeats them, whatever the clock, chance or a new config say', async () => {
  const path = join(tempDir(), 'jobs.db')
  const body = "{% $merge([$payload, { 'at': $millis(), 'chance': $random() }]) %}"
  const first = await open({ targets: { renders: { submit: { body } } } }, path)
  const n = fresh()
  await first.enqueue({ target: 'renders', payload: { n, fault: 'hang_after' } })
  const worker = first.startWorker()
  await waitFor(async () => (await first.get(1))?.state === 'unknown', { what: 'doubt' })
  await worker.stop()
  const changed = { submit: { url: `${api.origin}/v1/renders?changed=1`, body: { other: true }, timeoutMs: 800 } }
  const second = await open({ targets: { renders: changed } }, path)
  const recovery = second.startRecovery()
  await recovery.done
  expect(await second.get(1)).toMatchObject({ state: 'submitted' })
  const calls = await callsOf(n)
  expect(calls.length).toBeGreaterThan(1)
  expect(new Set(calls.map((call) => call.bodySha256)).size).toBe(1)
  expect(new Set(calls.map((call) => call.key)).size).toBe(1)
  expect(await effectsOf(n)).toHaveLength(1)
})

test('rows in doubt beyond the slots for lookups do not make the loop spin', async () => {
  const path = join(tempDir(), 'jobs.db')
  const store = await openStore(path, { create: true, now: Date.now() })
  onTestFinished(() => store.close())
  const silent = createServer((socket) => void socket.on('error', () => {}).resume())
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void silent.close())
  const { port } = silent.address() as AddressInfo
  let turns = 0
  let lookups = 0
  const counted: Store = {
    ...store,
    turn: async (input) => {
      turns++
      const result = await store.turn(input)
      lookups += result.investigations.length
      return result
    },
  }
  const once = await open({}, path)
  const numbers = Array.from({ length: 10 }, fresh)
  await once.enqueueMany(numbers.map((n) => ({ target: 'parcels', payload: { n, fault: 'reset_after' } })))
  const lookup = { url: `http://127.0.0.1:${port}/?reference={% $key %}`, timeoutMs: 200 }
  const worker = await workOver(counted, configFor(api.origin, { targets: { parcels: { lookup } } }), {
    concurrency: 2,
  })
  onTestFinished(async () => {
    await worker.close()
  })
  await waitFor(async () => (await once.status()).states.unknown === 10, { what: 'all to be in doubt' })
  const before = { turns, lookups }
  await waitFor(() => lookups >= before.lookups + 8, { what: 'lookups that nobody answers' })
  // One turn leases a lookup, the next one records it; nothing turns while they are out.
  expect(turns - before.turns).toBeLessThan(8 * (lookups - before.lookups))
})

/** A server of lookups that nobody answers; @returns where, and the most that were open at once, by path. */
async function silentLookups() {
  const most: Record<string, number> = {}
  const open: Record<string, number> = {}
  const server = createHttpServer((request) => {
    const name = request.url?.split('?')[0] ?? ''
    open[name] = (open[name] ?? 0) + 1
    most[name] = Math.max(most[name] ?? 0, open[name])
    request.on('close', () => {
      open[name] = (open[name] ?? 0) - 1
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, most }
}

test('lookups take the slots that calls leave free, and calls go out beside however many of them', async () => {
  const silent = await silentLookups()
  const lookup = { url: `${silent.origin}/parcels?reference={% $key %}`, timeoutMs: 30_000 }
  const once = await open({ targets: { parcels: { lookup } } })
  await once.enqueueMany(
    Array.from({ length: 40 }, () => ({ target: 'parcels', payload: { n: fresh(), fault: 'reset_after' } })),
  )
  const worker = once.startWorker({ concurrency: 24 })
  await waitFor(() => silent.most['/parcels'] === 24, { what: 'a lookup in every slot' })
  await once.enqueueMany(Array.from({ length: 5 }, () => ({ target: 'messages', payload: { n: fresh() } })))
  await waitFor(async () => (await once.status()).states.submitted === 5, { what: 'the calls' })
  expect(silent.most).toEqual({ '/parcels': 24 })
  void worker.stop()
})

test('a target with a limit is asked no more at once, and keeps nobody else from being looked up', async () => {
  const silent = await silentLookups()
  const lookup = (name: string) => ({ url: `${silent.origin}/${name}?reference={% $key %}`, timeoutMs: 30_000 })
  const { targets } = configFor(api.origin) as { targets: { parcels: object } }
  const once = await open({
    targets: {
      parcels: { lookup: lookup('parcels'), limits: { concurrency: 2 } },
      crates: {
        ...targets.parcels,
        lookup: { ...(targets.parcels as { lookup: object }).lookup, ...lookup('crates') },
      },
    },
  })
  for (const target of ['parcels', 'crates']) {
    await once.enqueueMany(
      Array.from({ length: 20 }, () => ({ target, payload: { n: fresh(), fault: 'reset_after' } })),
    )
  }
  const worker = once.startWorker({ concurrency: 24 })
  await waitFor(() => silent.most['/crates'] === 20, { what: 'the others' })
  await waitFor(async () => (await once.status()).states.unknown === 40, { what: 'all to be in doubt' })
  expect(silent.most).toEqual({ '/parcels': 2, '/crates': 20 })
  void worker.stop()
})

test('what is enqueued in the same process while a turn runs is not overlooked', async () => {
  const once = await open()
  const worker = once.startWorker()
  onTestFinished(async () => {
    await worker.stop()
  })
  for (let i = 0; i < 20; i++) {
    const n = fresh()
    const { requestId } = await once.enqueue({ target: 'renders', payload: { n } })
    await waitFor(async () => (await once.get(requestId))?.state === 'submitted', { what: `request ${requestId}` })
  }
})

test('a dry run asks lookups and cancels nothing', async () => {
  const once = await open()
  const n = fresh()
  await once.enqueue({ target: 'parcels', payload: { n, fault: 'slow:400' } })
  const worker = once.startWorker()
  await waitFor(async () => (await effectsOf(n)).length === 1, { what: 'the effect' })
  await once.cancel(1)
  await worker.stop()
  expect(await once.get(1)).toMatchObject({ state: 'unknown', taskId: expect.any(String) })
  expect(await dryRunOf(once)).toMatchObject([{ requestId: 1, would: 'canceled', why: 'cancel_at_api' }])
  const [effect] = await effectsOf(n)
  expect((await api.oracle()).cancellations.map(({ taskId }) => taskId)).not.toContain(effect?.taskId)
})

test('a worker that is told to stop while the store takes no writes ends when its grace is over, its answers on disk', async () => {
  const path = join(tempDir(), 'jobs.db')
  const store = await openStore(path, { create: true, now: Date.now() })
  onTestFinished(() => store.close())
  const once = await open({}, path)
  await once.enqueue({ target: 'messages', payload: { n: fresh() } })
  let isFull = false
  const full: Store = {
    ...store,
    turn: (input) => {
      isFull ||= input.results.length > 0
      return isFull ? Promise.reject(new OnceishError('STORE_FULL', 'no space')) : store.turn(input)
    },
  }
  const worker = await workOver(full, configFor(api.origin, { worker: { graceMs: 100 } }))
  onTestFinished(() => worker.close())
  await waitFor(() => isFull, { what: 'the trouble' })
  await worker.stop()
  expect(spillsIn(dirname(path))).toHaveLength(1)
  const next = once.startWorker(DRAIN)
  await next.done
  expect((await once.status()).states).toEqual({ submitted: 1 })
})

test('with concurrency 1 submitted tasks are asked about all the same', async () => {
  const status = {
    url: `${api.origin}/v1/renders/{% $taskId %}`,
    state: '{% $response.body.status %}',
    succeeded: ['done'],
    everyMs: 20,
  }
  const once = await open({ targets: { renders: { status } } })
  await once.enqueue({ target: 'renders', payload: { n: fresh() } })
  const worker = once.startWorker({ concurrency: 1 })
  onTestFinished(async () => {
    await worker.stop()
  })
  await waitFor(async () => (await once.get(1))?.state === 'succeeded', { what: 'the end of the task' })
})

test('with concurrency 1 every row in doubt is looked into, with nothing else to wake the worker', async () => {
  const path = join(tempDir(), 'jobs.db')
  const world = await openWorld({ path, policies: { messages: OPAQUE }, now: Date.now() })
  for (let i = 0; i < 12; i++) await world.enqueue({ n: fresh() }, { target: 'messages' })
  const { calls } = await world.turn({ slots: 12 })
  await world.turn({ results: calls.map((call) => answer(call, unknown())) })
  await world.store.close()
  const once = await open({}, path)
  const recovery = once.startRecovery({ concurrency: 1 })
  await waitFor(async () => (await once.status()).states.held === 12, { what: 'all to be held' })
  await recovery.done
})

test('with concurrency 1 a replay that is turned away does not keep ready requests of other targets waiting', async () => {
  const once = await open()
  const n = fresh()
  await once.enqueue({ target: 'renders', payload: { n, fault: 'hang_after' }, priority: 9 })
  await once.enqueueMany(Array.from({ length: 5 }, () => ({ target: 'messages', payload: { n: fresh() } })))
  const worker = once.startWorker({ concurrency: 1 })
  onTestFinished(async () => {
    await worker.stop()
  })
  await waitFor(async () => (await effectsOf(n)).length === 1, { what: 'the effect' })
  await once.pause('renders')
  await waitFor(async () => (await once.status()).states.submitted === 5, { what: 'the others' })
})

test('trouble with a read ends no worker and loses no answer', async () => {
  const path = join(tempDir(), 'jobs.db')
  const store = await openStore(path, { create: true, now: Date.now() })
  onTestFinished(() => store.close())
  const once = await open({}, path)
  await once.enqueue({ target: 'messages', payload: { n: fresh(), fault: 'slow:200' } })
  let failures = 3
  const shaky: Store = {
    ...store,
    watchChanges: (targets) => {
      const changed = store.watchChanges(targets)
      return async (now) => {
        if (failures-- > 0) throw new OnceishError('STORE_IO_FAILED', 'a read failed')
        return changed(now)
      }
    },
  }
  const worker = await workOver(shaky, configFor(api.origin), DRAIN)
  await worker.done
  await worker.close()
  expect((await once.status()).states).toEqual({ submitted: 1 })
})

test('a store that is slow to answer is no process that stood still', async () => {
  const path = join(tempDir(), 'jobs.db')
  const store = await openStore(path, { create: true, now: Date.now() })
  onTestFinished(() => store.close())
  const answeredAfterMs = 1200
  let answers = 0
  const slow: Store = {
    ...store,
    watchChanges: () => async () => {
      await new Promise<void>((resolve) => void systemClock.after(answeredAfterMs, resolve))
      answers++
      return null
    },
  }
  const worker = await workOver(slow, configFor(api.origin, { worker: { leaseMs: 4000 } }))
  onTestFinished(() => worker.close())
  await waitFor(() => answers >= 2, { what: 'two slow answers' })
  expect(worker.counters().stalls).toBe(0)
})

test('a worker that breaks off writes what it was answered to disk, and the next one settles it', async () => {
  const path = join(tempDir(), 'jobs.db')
  const store = await openStore(path, { create: true, now: Date.now() })
  onTestFinished(() => store.close())
  const once = await open({}, path)
  await once.enqueue({ target: 'messages', payload: { n: fresh() } })
  const broken: Store = {
    ...store,
    turn: (input) =>
      input.results.length > 0 ? Promise.reject(new OnceishError('INVARIANT_BROKEN', 'broken')) : store.turn(input),
  }
  const worker = await workOver(broken, configFor(api.origin))
  await expect(worker.done).rejects.toMatchObject({ code: 'INVARIANT_BROKEN' })
  await worker.close()
  const next = once.startWorker(DRAIN)
  await next.done
  expect((await once.status()).states).toEqual({ submitted: 1 })
})
