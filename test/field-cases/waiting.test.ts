// Cases about when a request is called: told waits, priorities.
import { expect, test } from 'vitest'
import type { Onceish } from '../../src/index.ts'
import { DRAIN } from '../support/worker.ts'
import { keyed, MINUTE_MS, openStage } from './stage.ts'

const TOLD = { status: 429, headers: { 'retry-after': '900' }, body: '' }
const victims = Array.from({ length: 20 }, (_, n) => ({ target: 'job', payload: { n } }))

/** Twenty calls at once, and each is told to wait for a quarter of an hour. */
async function openLimited(rateLimit: object = {}) {
  const stage = await openStage('keyed', (url) => ({ ...keyed(url), limits: { concurrency: 20 }, rateLimit }))
  stage.api.failNext(...victims.map(() => TOLD))
  let chance = 0
  const once = await stage.open({ random: () => (++chance * 0.618) % 1 })
  await once.enqueueMany(victims)
  await once.startWorker({ drain: { horizonMs: 0 }, concurrency: 20 }).done
  return { ...stage, once, told: stage.clock.wallNow() }
}

test('C10 all 429 victims wake in the same instant: each has its own due time, none is earlier than told', async () => {
  const { api, clock, once, told } = await openLimited()
  const rows = await once.list({ state: 'scheduled' })
  const dueTimes = rows.map(({ dueAt }) => dueAt ?? 0)
  expect(dueTimes).toHaveLength(20)
  expect(new Set(dueTimes).size).toBe(20)
  expect(Math.min(...dueTimes)).toBeGreaterThanOrEqual(told + 15 * MINUTE_MS)
  // Being limited costs no attempt, and waking early nothing but the wait.
  expect(rows.every(({ attempts }) => attempts === 0)).toBe(true)
  clock.advance(15 * MINUTE_MS - 1)
  await once.startWorker({ drain: { horizonMs: 0 } }).done
  expect(api.calls).toHaveLength(20)
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(api.effects).toHaveLength(20)
})

test('C10 all 429 victims wake in the same instant: two processes, one of them new, call nobody before, and together ramp up', async () => {
  const { api, clock, open, once, told } = await openLimited()
  // Work that was never told anything waits with its target.
  await once.enqueueMany(Array.from({ length: 80 }, (_, n) => ({ target: 'job', payload: { n: 100 + n } })))
  await once.close()
  const lives = [await open(), await open()]
  clock.advance(15 * MINUTE_MS - 1)
  await Promise.all(lives.map((life) => life.startWorker({ drain: { horizonMs: 0 } }).done))
  expect(api.effects).toHaveLength(0)
  const { waits, paused } = (await lives[0]?.status())?.targets['job'] ?? {}
  expect({ paused, waits }).toMatchObject({ paused: false, waits: [{ toldBy: 'retry-after: 900', since: told }] })
  const until = waits?.[0]?.until ?? 0
  expect(until).toBeGreaterThanOrEqual(told + 15 * MINUTE_MS)
  expect(until).toBeLessThanOrEqual(told + 16 * MINUTE_MS)
  await clock.runUntil(Promise.all(lives.map((life) => life.startWorker(DRAIN).done)), { stepMs: 250 })
  expect(api.effects).toHaveLength(100)
  const arrivedBy = (ms: number) => api.effects.filter(({ at }) => at < until + ms).length
  // A tenth of twenty in the first six seconds, then twice as much in each six.
  const arrived = [0, 6000, 12_000, 18_000, 24_000].map(arrivedBy)
  const most = [0, 2, 6, 14, 30]
  arrived.forEach((count, step) => {
    expect(count, `in step ${step}`).toBeLessThanOrEqual(most[step] ?? 0)
  })
  expect(arrived[4]).toBeGreaterThan(10)
})

test('C10 all 429 victims wake in the same instant: beyond the longest wait they are parked and shown, not sent early', async () => {
  const { api, clock, once, told } = await openLimited({ maxWaitMs: '10m' })
  const parked = await once.list({ reason: 'parked' })
  expect(parked).toHaveLength(20)
  expect(parked.every(({ state, attempts }) => state === 'scheduled' && attempts === 0)).toBe(true)
  const first = Math.min(...parked.map(({ dueAt }) => dueAt ?? 0))
  expect(first).toBeGreaterThanOrEqual(told + 15 * MINUTE_MS)
  expect((await once.status()).targets['job']).toMatchObject({ parked: 20, parkedUntil: first })
  const [row] = parked
  const { outlook } = (await once.get(row?.requestId ?? 0)) ?? {}
  expect(outlook).toMatchObject({ by: 'worker', step: 'call' })
  expect(outlook?.at).toBeGreaterThanOrEqual(told + 15 * MINUTE_MS)
  clock.advance(10 * MINUTE_MS + 1)
  await once.startWorker({ drain: { horizonMs: 0 } }).done
  expect(api.calls).toHaveLength(20)
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(api.effects).toHaveLength(20)
})

function guarded(url: string) {
  return { ...keyed(url), rateLimit: { statuses: [403, 429], headers: ['X-RateLimit-Reset epoch-s'] } }
}

test('C11 reset is an epoch, 403 is a limit: with a reset it is a wait until then, and no attempt is burned', async () => {
  const { api, clock, open } = await openStage('keyed', guarded)
  const now = clock.wallNow()
  const headers = { date: new Date(now).toUTCString(), 'x-ratelimit-reset': String(now / 1000 + 90) }
  api.failNext({ status: 403, headers, body: 'slow down' })
  const once = await open()
  await once.enqueueMany([1, 2].map((payload) => ({ target: 'job', payload })))
  await once.startWorker({ drain: { horizonMs: 0 }, concurrency: 1 }).done
  const [row, other] = await once.list()
  expect(row).toMatchObject({ state: 'scheduled', attempts: 0 })
  expect(row?.dueAt).toBeGreaterThanOrEqual(now + 90_000)
  expect(row?.dueAt).toBeLessThanOrEqual(now + 99_000)
  // The whole target waits, and nobody need do anything about it.
  expect(other).toMatchObject({ state: 'ready', attempts: 0 })
  const { paused, waits } = (await once.status()).targets['job'] ?? {}
  expect({ paused, waits }).toMatchObject({
    paused: false,
    waits: [{ toldBy: `x-ratelimit-reset: ${now / 1000 + 90}` }],
  })
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(api.effects.map(({ at }) => at >= now + 90_000)).toEqual([true, true])
})

test('C11 reset is an epoch, 403 is a limit: a bare 403, or one with calls left, pauses the target with its queue whole, and says why', async () => {
  const { api, clock, open } = await openStage('keyed', guarded)
  const left = { 'x-ratelimit-remaining': '12', 'x-ratelimit-reset': String(clock.wallNow() / 1000 + 90) }
  const once = await open()
  await once.enqueueMany([1, 2].map((payload) => ({ target: 'job', payload })))
  for (const headers of [{}, left]) {
    api.failNext({ status: 403, headers, body: 'forbidden' })
    await once.startWorker({ ...DRAIN, concurrency: 1 }).done
    expect(await once.status()).toMatchObject({
      states: { ready: 2 },
      targets: { job: { paused: true, pauseReason: 'blocked: HTTP 403', waits: [] } },
    })
    expect((await once.list()).map(({ attempts }) => attempts)).toEqual([0, 0])
    await once.resume('job')
  }
  expect(api.calls).toHaveLength(2)
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(api.effects).toHaveLength(2)
})

test('C10 all 429 victims wake in the same instant: a replay waits too, and a dry run and the story of its request say so', async () => {
  const { api, clock, open } = await openStage('keyed', keyed)
  api.failNext('reset-after-effect', { ...TOLD, headers: { 'retry-after': '1800' } })
  const once = await open()
  await once.enqueueMany([1, 2].map((payload) => ({ target: 'job', payload })))
  await once.startWorker({ drain: { horizonMs: 0 }, concurrency: 1 }).done
  const until = (await once.status()).targets['job']?.waits[0]?.until ?? 0
  const words = new Date(until).toISOString()
  for await (const { requestId, would, says } of once.dryRun())
    expect({ requestId, would, says }).toMatchObject({
      requestId: 1,
      would: 'replay',
      says: expect.stringContaining(`not before ${words}`),
    })
  const { outlook } = (await once.get(1)) ?? {}
  expect(outlook).toMatchObject({
    step: 'replay',
    at: until,
    why: expect.stringContaining('the API told its target to wait (retry-after: 1800)'),
  })
  clock.advance(60_000)
  await once.startWorker({ drain: { horizonMs: 0 } }).done
  expect(api.calls).toHaveLength(2)
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect((await once.list()).map(({ state, attempts }) => [state, attempts])).toEqual([
    ['submitted', 1],
    ['submitted', 1],
  ])
  expect(api.effects.map(({ at }) => at >= until)).toEqual([false, true])
})

test('C12 low priority never runs: without aging it waits for the end of the stream, and how long it waits is shown', async () => {
  const STREAM = 40
  let once: Onceish | null = null
  let stream = 5
  let oldest: Promise<number | null> | undefined
  const { api, clock, open } = await openStage('opaque', (url) => ({ submit: { url }, taskId: 'none' }), {
    answer: () => {
      clock.advance(1000)
      // Urgent work arrives as fast as it is done.
      if (stream < STREAM) void once?.enqueue({ target: 'job', payload: { n: ++stream }, priority: 10 })
      else oldest ??= once?.status().then(({ oldestReady }) => oldestReady)
      return { status: 200, body: {} }
    },
  })
  once = await open()
  const waitsSince = clock.wallNow() - MINUTE_MS
  await once.enqueue({ target: 'job', payload: { n: 0 }, runAt: waitsSince })
  for (let n = 1; n <= stream; n++) await once.enqueue({ target: 'job', payload: { n }, priority: 10 })
  await once.startWorker({ ...DRAIN, concurrency: 1 }).done
  const order = api.calls.map(({ json }) => (json as { n: number }).n)
  expect(order).toHaveLength(STREAM + 1)
  expect(order.at(-1)).toBe(0)
  expect(await oldest).toBe(waitsSince)
})

test('C12 low priority never runs: with aging it has its turn once its wait is worth the difference', async () => {
  let once: Onceish | null = null
  let calls = 0
  const aging = (url: string) => ({ submit: { url }, taskId: 'none', aging: '1m' })
  const { api, clock, open } = await openStage('opaque', aging, {
    answer: () => {
      clock.advance(MINUTE_MS / 4)
      // An endless stream of urgent work.
      if (++calls < 100) void once?.enqueue({ target: 'job', payload: { urgent: calls }, priority: 10 })
      return { status: 200, body: {} }
    },
  })
  once = await open()
  const since = clock.wallNow()
  await once.enqueue({ target: 'job', payload: { n: 0 }, priority: 0 })
  for (const urgent of ['a', 'b', 'c']) await once.enqueue({ target: 'job', payload: { urgent }, priority: 10 })
  expect((await once.status()).targets['job']?.oldestReady).toEqual([
    { priority: 10, since },
    { priority: 0, since },
  ])
  await once.startWorker({ ...DRAIN, concurrency: 1 }).done
  const at = api.calls.findIndex(({ json }) => (json as { n?: number }).n === 0)
  // Ten steps of a minute, at four calls a minute: not before, and soon after.
  expect(at).toBeGreaterThanOrEqual(36)
  expect(at).toBeLessThanOrEqual(44)
  expect(api.calls.length).toBeGreaterThan(90)
})
