// Cases about when a request is called: told waits, priorities, timers.
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Onceish } from '../../src/index.ts'
import type { Store } from '../../src/store/store.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'
import { DAY_MS, DRAIN, keyed, MINUTE_MS, openField, openStage } from './stage.ts'

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

test('C19 timer overflow: a request due in 60 days wakes nobody', async () => {
  const warnings: string[] = []
  const note = ({ name }: Error) => void warnings.push(name)
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  const counts = { turns: 0, polls: 0 }
  const config = { store: join(tempDir(), 'jobs.db'), targets: { job: keyed('http://127.0.0.1:9/jobs') } }
  const once = await openField(config, undefined, { store: counting(counts) })
  await once.enqueue({ target: 'job', payload: 1, runAt: Date.now() + 60 * DAY_MS })
  once.startWorker()
  await waitFor(() => counts.polls > 40, { what: 'the worker to be idle for long' })
  expect(counts.turns).toBe(1)
  expect(warnings).not.toContain('TimeoutOverflowWarning')
  expect(await once.list()).toMatchObject([{ state: 'scheduled' }])
})

test('C19 timer overflow: a request due in 60 days is called when they are over', async () => {
  const { api, clock, open } = await openStage('keyed', keyed)
  const once = await open()
  await once.enqueue({ target: 'job', payload: 1, runAt: clock.wallNow() + 60 * DAY_MS })
  clock.advance(60 * DAY_MS - 1)
  await once.startWorker({ drain: { horizonMs: 0 } }).done
  expect(api.calls).toHaveLength(0)
  clock.advance(1)
  await once.startWorker({ drain: { horizonMs: 0 } }).done
  expect(api.effects).toHaveLength(1)
})

test.each([Number.POSITIVE_INFINITY, Number.NaN])(
  'C19 timer overflow: %f is no time to be due at, and is refused',
  async (runAt) => {
    const { open } = await openStage('keyed', keyed)
    const once = await open()
    const enqueued = once.enqueue({ target: 'job', payload: 1, runAt })
    await expect(enqueued).rejects.toMatchObject({ code: 'REQUEST_INVALID', message: expect.stringContaining('runAt') })
    expect(await once.list()).toEqual([])
  },
)

function counting(counts: { turns: number; polls: number }): (store: Store) => Store {
  return (store) => ({
    ...store,
    turn: (input) => {
      counts.turns++
      return store.turn(input)
    },
    watchChanges: (targets) => {
      const changed = store.watchChanges(targets)
      return (now) => {
        counts.polls++
        return changed(now)
      }
    },
  })
}
