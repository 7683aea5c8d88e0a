// Cases about when a request is called: told waits, priorities.
import { expect, test } from 'vitest'
import type { Onceish } from '../../src/index.ts'
import { DRAIN } from '../support/worker.ts'
import { keyed, MINUTE_MS, openStage } from './stage.ts'

test('C10 all 429 victims wake in the same instant: each has its own due time, none is earlier than told', async () => {
  const { api, clock, open } = await openStage('keyed', keyed)
  api.failNext(...Array.from({ length: 20 }, () => ({ status: 429, headers: { 'retry-after': '900' }, body: '' })))
  let chance = 0
  const once = await open({ random: () => (++chance * 0.618) % 1 })
  await once.enqueueMany(Array.from({ length: 20 }, (_, n) => ({ target: 'job', payload: { n } })))
  await once.startWorker({ drain: { horizonMs: 0 }, concurrency: 20 }).done
  const rows = await once.list({ state: 'scheduled' })
  const dueTimes = rows.map(({ dueAt }) => dueAt ?? 0)
  expect(dueTimes).toHaveLength(20)
  expect(new Set(dueTimes).size).toBe(20)
  expect(Math.min(...dueTimes)).toBeGreaterThanOrEqual(clock.wallNow() + 15 * MINUTE_MS)
  // Being limited costs no attempt, and waking early nothing but the wait.
  expect(rows.every(({ attempts }) => attempts === 0)).toBe(true)
  clock.advance(15 * MINUTE_MS - 1)
  await once.startWorker({ drain: { horizonMs: 0 } }).done
  expect(api.calls).toHaveLength(20)
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(api.effects).toHaveLength(20)
})

function guarded(url: string) {
  return {
    ...keyed(url),
    rateLimit: { statuses: [403, 429], headers: ['X-RateLimit-Reset epoch-s'] },
    outcomes: [
      { when: "{% $response.status = 403 and $not($exists($response.headers.'x-ratelimit-reset')) %}", is: 'blocked' },
    ],
  }
}

test('C11 reset is an epoch, 403 is a limit: with a reset it is a wait until then, and no attempt is burned', async () => {
  const { api, clock, open } = await openStage('keyed', guarded)
  const now = clock.wallNow()
  const headers = { date: new Date(now).toUTCString(), 'x-ratelimit-reset': String(now / 1000 + 90) }
  api.failNext({ status: 403, headers, body: 'slow down' })
  const once = await open()
  await once.enqueue({ target: 'job', payload: 1 })
  await once.startWorker({ drain: { horizonMs: 0 } }).done
  const [row] = await once.list()
  expect(row).toMatchObject({ state: 'scheduled', attempts: 0 })
  expect(row?.dueAt).toBeGreaterThanOrEqual(now + 90_000)
  expect(row?.dueAt).toBeLessThanOrEqual(now + 99_000)
  expect((await once.status()).targets['job']).toMatchObject({ paused: false })
})

test('C11 reset is an epoch, 403 is a limit: a bare 403 pauses the target with its queue whole, and says why', async () => {
  const { api, clock, open } = await openStage('keyed', guarded)
  api.failNext({ status: 403, body: 'forbidden' })
  const once = await open()
  await once.enqueueMany([1, 2].map((payload) => ({ target: 'job', payload })))
  await once.startWorker({ ...DRAIN, concurrency: 1 }).done
  expect(await once.status()).toMatchObject({
    states: { ready: 2 },
    targets: { job: { paused: true, pauseReason: 'blocked: HTTP 403' } },
  })
  expect((await once.list()).map(({ attempts }) => attempts)).toEqual([0, 0])
  expect(api.calls).toHaveLength(1)
  await once.resume('job')
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(api.effects).toHaveLength(2)
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
