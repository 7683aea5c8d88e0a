// A person has said that the store was put back from a copy: whatever it owes may have been called since.
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { type DescribedTarget, httpTarget, type Onceish, type PayloadsOf } from '../../src/index.ts'
import { type CrashPoint, openForTest, virtualClock } from '../../src/testing.ts'
import { openFakeApi } from '../support/counting-api.ts'
import { putBack } from '../support/store-files.ts'
import { tempDir } from '../support/temp-dir.ts'

type Opened = Onceish<PayloadsOf<readonly [DescribedTarget<'render', unknown>]>>

const HOUR = 3_600_000
const REMEMBERED_MS = 24 * HOUR

async function world() {
  const clock = virtualClock()
  const api = await openFakeApi({ kind: 'keyed', clock, rememberedForMs: REMEMBERED_MS })
  const path = join(tempDir(), 'jobs.db')
  const target = httpTarget({
    name: 'render',
    submit: { url: api.url, timeoutMs: 2000 },
    idempotency: { header: 'Idempotency-Key', rememberedFor: REMEMBERED_MS, margin: HOUR },
    taskId: '{% $response.body.id %}',
  })
  const open = (crashAt?: CrashPoint) =>
    openForTest({ store: path, targets: [target], clock, ...(crashAt === undefined ? {} : { crashAt }) })
  const work = async (once: Opened) => clock.runUntil(once.startWorker({ drain: { horizonMs: HOUR } }).done)
  const recover = async (once: Opened) => clock.runUntil(once.recover())
  const copy = join(dirname(path), 'copy.db')
  const enqueue = async (once: Opened, n: number, runAt?: number, orderingKey?: string) => {
    const options = { orderingKey, ...(runAt === undefined ? {} : { runAt: new Date(runAt).toISOString() }) }
    return (await once.enqueue({ target: 'render', payload: { n }, ...options })).requestId
  }
  return { clock, api, path, copy, open, work, recover, putBack: () => putBack(copy, path), enqueue }
}

/** Three requests are copied as ready, and called afterwards; the copy is put back. */
async function restored() {
  const made = await world()
  const once = await made.open()
  for (const n of [1, 2, 3]) await made.enqueue(once, n)
  await once.backup(made.copy)
  await made.work(once)
  await once.close()
  expect(made.api.effects).toHaveLength(3)
  made.putBack()
  return made
}

test('no worker, and no recovery, calls before the word; enqueue and looking go on', async () => {
  const { open, api, enqueue } = await restored()
  const once = await open()
  await expect(once.startWorker().done).rejects.toMatchObject({ code: 'STORE_RESTORED' })
  await expect(once.recover()).rejects.toMatchObject({ code: 'STORE_RESTORED' })
  expect(await once.origin()).toMatchObject({ kind: 'restored', why: 'behind' })
  await enqueue(once, 4)
  expect((await once.status()).states).toEqual({ ready: 4 })
  expect(api.calls).toHaveLength(3)
  await once.close()
})

test('what was ready is replayed under the key that it had: the same tasks, no second effect', async () => {
  const { open, api, recover } = await restored()
  const once = await open()
  expect(await once.declareRestored()).toMatchObject({ doubted: 3, kept: 0, targets: { render: 3 } })
  expect((await once.status()).states).toEqual({ unknown: 3 })
  await recover(once)
  expect((await once.status()).states).toEqual({ submitted: 3 })
  expect(api.effects).toHaveLength(3)
  expect(new Set(api.calls.map(({ key }) => key)).size).toBe(3)
  expect((await once.list()).map(({ taskId }) => taskId).sort()).toEqual(api.effects.map(({ id }) => id).sort())
  await once.close()
})

test('its window is counted from the copy: past it nothing is replayed, and a person decides', async () => {
  const { open, api, recover, clock } = await restored()
  await clock.advance(REMEMBERED_MS - HOUR)
  const once = await open()
  await once.declareRestored()
  await recover(once)
  const held = await once.list()
  expect(held.map(({ state, reason }) => `${state}: ${reason}`)).toEqual(Array(3).fill('held: key_window_closed'))
  expect(api.calls).toHaveLength(3)
  await once.close()
})

test('an earlier first attempt begins the window before the copy', async () => {
  const { open, api, recover, clock, copy, putBack, enqueue } = await world()
  const first = await open('call:answered')
  const id = await enqueue(first, 1)
  await expect(first.startWorker().done).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
  await first.close()
  await clock.advance(REMEMBERED_MS - 2 * HOUR)
  // Whoever finds the lease over writes a later time into the store.
  const finding = await open('sweep:before-commit')
  await expect(finding.startWorker().done).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
  await finding.close()
  const second = await open()
  expect((await second.facts()).highWaterAt).toBe(clock.wallNow())
  await second.backup(copy)
  await second.close()
  putBack()
  await clock.advance(HOUR + 60_000)
  const once = await open()
  await once.declareRestored({ force: true })
  await recover(once)
  expect(await once.get(id)).toMatchObject({ state: 'held', reason: 'key_window_closed' })
  expect(api.calls).toHaveLength(1)
  await once.close()
})

test('what is due later than any call stays scheduled; what has ended stays ended', async () => {
  const { open, clock, copy, work, putBack, enqueue } = await world()
  const once = await open()
  const [ready, soon, later, canceled] = [
    await enqueue(once, 1),
    await enqueue(once, 2, clock.wallNow() + 60_000),
    await enqueue(once, 3, clock.wallNow() + 9 * HOUR),
    await enqueue(once, 4),
  ]
  await once.cancel(canceled)
  await once.backup(copy)
  await work(once)
  await once.close()
  putBack()
  const back = await open()
  // Enqueued after everything that was called: surely not called.
  clock.advance(1000)
  const fresh = await enqueue(back, 5)
  expect(await back.declareRestored({ dryRun: true })).toMatchObject({ doubted: 2, kept: 2 })
  expect((await back.status()).states).toEqual({ ready: 2, scheduled: 2, canceled: 1 })
  expect(await back.declareRestored()).toMatchObject({ doubted: 2, kept: 2 })
  const states = await Promise.all([ready, soon, later, canceled, fresh].map(async (id) => (await back.get(id))?.state))
  expect(states).toEqual(['unknown', 'unknown', 'scheduled', 'canceled', 'ready'])
  await back.close()
})

test('in doubt before the copy, it has one more attempt that nobody recorded, and the same key', async () => {
  const { open, api, copy, putBack, enqueue, recover } = await world()
  const dying = await open('call:answered')
  const id = await enqueue(dying, 1)
  await expect(dying.startWorker().done).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
  await dying.close()
  const once = await open()
  await once.backup(copy)
  await once.close()
  putBack()
  const back = await open()
  await back.declareRestored({ force: true })
  expect((await back.get(id))?.taskState).toMatchObject({ state: 'unknown', attempt: 2, doubtfulAttempts: [1, 2] })
  await recover(back)
  expect(await back.get(id)).toMatchObject({ state: 'submitted', taskId: api.effects[0]?.id })
  expect(api.effects).toHaveLength(1)
  expect(new Set(api.calls.map(({ key }) => key)).size).toBe(1)
  await back.close()
})

test('a target that the config does not name is put back first: its calls could not be rendered', async () => {
  const { api, clock, path, enqueue, open, copy, work, putBack } = await world()
  const once = await open()
  await enqueue(once, 1)
  await once.backup(copy)
  await work(once)
  await once.close()
  putBack()
  const other = httpTarget({ name: 'other', submit: { url: api.url }, taskId: '{% $response.body.id %}' })
  const without = await openForTest({ store: path, targets: [other], clock })
  await expect(without.declareRestored()).rejects.toMatchObject({ code: 'TARGET_UNKNOWN' })
  expect((await without.status()).states).toEqual({ ready: 1 })
  await without.close()
  const whole = await open()
  expect(await whole.declareRestored()).toMatchObject({ doubted: 1 })
  await whole.close()
})

test.each(['restore:before-commit', 'restore:after-commit'] as const)(
  'ended at %s, the word is not yet said: the next run says it whole',
  async (point) => {
    const { open, api, recover } = await restored()
    const dying = await open(point)
    await expect(dying.declareRestored()).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
    await dying.close()
    const once = await open()
    await expect(once.startWorker().done).rejects.toMatchObject({ code: 'STORE_RESTORED' })
    await once.declareRestored()
    await recover(once)
    expect((await once.status()).states).toEqual({ submitted: 3 })
    expect(api.effects).toHaveLength(3)
    await once.close()
  },
)

test('the same copy put back once more is told again; one that was never restored takes a word with force', async () => {
  const { open, putBack, recover } = await restored()
  const once = await open()
  const before = await once.facts()
  await once.declareRestored()
  await recover(once)
  await expect(once.declareRestored()).rejects.toMatchObject({ code: 'STORE_NOT_RESTORED' })
  await expect(once.declareMoved()).rejects.toMatchObject({ code: 'STORE_NOT_RESTORED' })
  expect((await once.declareRestored({ force: true })).doubted).toBe(0)
  expect(await once.facts()).not.toMatchObject({ incarnation: before.incarnation })
  const said = []
  for await (const event of once.events({ afterId: 0 })) {
    said.push(event)
    if (event.kind === 'store_restored') break
  }
  expect(said.at(-1)).toMatchObject({ actor: 'library', detail: { doubted: 3, kept: 0 } })
  await once.close()
  putBack()
  const again = await open()
  expect(await again.origin()).toMatchObject({ kind: 'restored', why: 'other_store' })
  await again.close()
})

/** The three of one ordering key, called since the copy and in doubt. */
async function restoredLine() {
  const made = await world()
  const before = await made.open()
  for (const n of [1, 2, 3]) await made.enqueue(before, n, undefined, 'a')
  await before.backup(made.copy)
  await made.work(before)
  await before.close()
  const keys = made.api.calls.map(({ key }) => key)
  made.putBack()
  const once = await made.open()
  await once.declareRestored()
  expect((await once.status()).states).toEqual({ unknown: 3 })
  const keysSince = () => made.api.calls.slice(keys.length).map(({ key }) => keys.indexOf(key) + 1)
  return { ...made, once, keysSince }
}

test('of an ordering key the first is replayed until it has settled, and then the next', async () => {
  const { once, api, recover, keysSince } = await restoredLine()
  const says: string[] = []
  for await (const line of once.dryRun()) says.push(line.says)
  expect(says.map((words) => /once request (\d+) of its ordering key has settled/.exec(words)?.[1])).toEqual([
    undefined,
    '1',
    '1',
  ])
  api.failNext('reset-before-effect', 'reset-after-effect')
  await recover(once)
  expect(keysSince()).toEqual([1, 1, 1, 2, 3])
  expect((await once.status()).states).toEqual({ submitted: 3 })
  expect(api.effects).toHaveLength(3)
  await once.close()
})

test('behind one that is held the others of its key stay in doubt; a drain does not wait for them, and a word frees them', async () => {
  const { once, api, recover, work, keysSince, clock } = await restoredLine()
  api.failNext({ status: 422, body: {} })
  const startedAt = clock.wallNow()
  await recover(once)
  await work(once)
  expect(clock.wallNow() - startedAt).toBeLessThan(HOUR)
  expect(keysSince()).toEqual([1])
  const [first, second, third] = await once.list()
  expect(first).toMatchObject({ state: 'held', reason: 'rejected_in_doubt' })
  for (const behind of [second, third]) {
    expect(behind).toMatchObject({ state: 'unknown', reason: 'ordering', behind: { requestId: 1, state: 'held' } })
  }
  expect(await once.status()).toMatchObject({ targets: { render: { stuck: 2 } }, stuckKeys: [{ followers: 2 }] })
  await once.resolve(1, { kind: 'task_id', taskId: api.effects[0]?.id ?? '' })
  await recover(once)
  expect(keysSince()).toEqual([1, 2, 3])
  expect((await once.status()).states).toEqual({ submitted: 3 })
  await once.close()
})

test('behind one that is due later than any call, what a copy has forgotten waits for it too', async () => {
  const { clock, api, open, enqueue, copy, work, recover, putBack } = await world()
  const before = await open()
  const later = await enqueue(before, 1, clock.wallNow() + 2 * HOUR, 'a')
  const behind = await enqueue(before, 2, undefined, 'a')
  await before.backup(copy)
  await before.cancel(later)
  await work(before)
  await before.close()
  const [forgotten] = api.calls
  putBack()
  const once = await open()
  expect(await once.declareRestored()).toMatchObject({ doubted: 1, kept: 1 })
  await recover(once)
  expect(await once.get(behind)).toMatchObject({
    state: 'unknown',
    reason: 'ordering',
    behind: { requestId: later, state: 'scheduled' },
  })
  expect(api.calls).toHaveLength(1)
  clock.advance(2 * HOUR)
  await work(once)
  expect(api.calls.map(({ json }) => json)).toEqual([{ n: 2 }, { n: 1 }, { n: 2 }])
  expect(api.calls[2]?.key).toBe(forgotten?.key)
  expect((await once.status()).states).toEqual({ submitted: 2 })
  await once.close()
})
