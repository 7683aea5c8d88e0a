// The entry for users' tests, used as users use it: their own targets, crashed at every named point, counted at an API.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineTarget, httpTarget, type LookupAnswer, RejectedError } from '../../src/index.ts'
import { CRASH_POINTS, type CrashPoint, openForTest, virtualClock } from '../../src/testing.ts'
import { openFakeApi } from '../support/counting-api.ts'
import { tempDir } from '../support/temp-dir.ts'

const HOUR_MS = 3_600_000

/** A target in code that calls over real HTTP. */
function keyed(url: string) {
  return defineTarget({
    name: 'keyed',
    version: '1',
    payload: z.object({ n: z.number() }),
    policy: { timeoutMs: 5000, idempotency: { rememberedFor: '24h', margin: '1h' } },
    invoke: async ({ payload, key, signal }) => {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'idempotency-key': key ?? '', connection: 'close' },
        body: JSON.stringify(payload),
        signal,
      })
      if (response.status === 422) throw new RejectedError(await response.text())
      return (await response.json()) as { taskId: string }
    },
  })
}

function listed(url: string) {
  return defineTarget({
    name: 'listed',
    version: '1',
    payload: z.object({ n: z.number() }),
    policy: {
      timeoutMs: 5000,
      idempotency: {},
      lookup: { settleMs: '2m', everyMs: '10s', misses: 2, missMeans: 'absent', remembers: '7d' },
    },
    invoke: async ({ payload, key, signal }) => {
      const body = JSON.stringify({ ...payload, reference: key })
      const response = await fetch(url, { method: 'POST', headers: { connection: 'close' }, body, signal })
      return (await response.json()) as { taskId: string }
    },
    lookup: async ({ key, signal }): Promise<LookupAnswer> => {
      const response = await fetch(`${url}?reference=${key}`, { headers: { connection: 'close' }, signal })
      const { data } = (await response.json()) as { data: { id: string }[] }
      const [first] = data
      return first === undefined ? { kind: 'absent' } : { kind: 'found', taskId: first.id }
    },
  })
}

const answer = ({ id }: { id: string }) => ({ status: 201, body: { taskId: id } })

/** Points that a request passes on the way to its submission. */
const ON_THE_WAY = CRASH_POINTS.slice(
  CRASH_POINTS.indexOf('claim:before-commit'),
  CRASH_POINTS.indexOf('lookup:answered'),
)

async function crashAndRecover(point: CrashPoint, kind: 'keyed' | 'lookup') {
  const clock = virtualClock()
  const api = await openFakeApi({ kind, clock, answer })
  const store = join(tempDir(), 'jobs.db')
  const targets = [kind === 'keyed' ? keyed(api.url) : listed(api.url)]
  const open = (crashAt?: CrashPoint) => openForTest({ store, targets, clock, ...(crashAt && { crashAt }) })

  const first = await open(point)
  const { requestId } = await first.enqueue({ target: kind === 'keyed' ? 'keyed' : 'listed', payload: { n: 1 } })
  await expect(first.startWorker().done).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
  await expect(first.status()).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
  await first.close()

  const second = await open()
  onTestFinished(() => second.close())
  const drain = { horizonMs: 2 * HOUR_MS }
  await clock.runUntil(second.startWorker({ drain }).done)
  return { request: await second.get(requestId), api }
}

test.each(ON_THE_WAY)(
  'a keyed target in code that crashes at %s has one effect, and its task is known',
  async (point) => {
    const { request, api } = await crashAndRecover(point, 'keyed')
    expect(api.effects).toHaveLength(1)
    expect(request).toMatchObject({ state: 'submitted', taskId: api.effects[0]?.id })
  },
)

test.each(ON_THE_WAY)(
  'a target with a lookup that crashes at %s has one effect, found or called again',
  async (point) => {
    const { request, api } = await crashAndRecover(point, 'lookup')
    expect(api.effects).toHaveLength(1)
    expect(request).toMatchObject({ state: 'submitted', taskId: api.effects[0]?.id })
  },
)

test.each(['lookup:answered', 'sweep:before-commit', 'sweep:after-commit'] as const)(
  'a second crash, of the recovery at %s, changes nothing',
  async (point) => {
    const clock = virtualClock()
    const api = await openFakeApi({ kind: 'lookup', clock, answer })
    const store = join(tempDir(), 'jobs.db')
    const targets = [listed(api.url)]
    const first = await openForTest({ store, targets, clock, crashAt: 'call:answered' })
    const { requestId } = await first.enqueue({ target: 'listed', payload: { n: 1 } })
    await expect(first.startWorker().done).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
    await first.close()
    const second = await openForTest({ store, targets, clock, crashAt: point })
    await expect(clock.runUntil(second.recover())).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
    await second.close()
    const third = await openForTest({ store, targets, clock })
    onTestFinished(() => third.close())
    await clock.runUntil(third.recover())
    expect(api.effects).toHaveLength(1)
    expect(await third.get(requestId)).toMatchObject({ state: 'submitted', taskId: 'task-1' })
  },
)

test('an enqueue that crashes before its commit was never there, after it is; resolve the same', async () => {
  const store = join(tempDir(), 'jobs.db')
  const api = await openFakeApi({ kind: 'opaque' })
  const targets = [
    httpTarget({ name: 'opaque', submit: { url: api.url, timeoutMs: 5000 }, taskId: '{% $response.body.id %}' }),
  ] as const
  for (const [point, count] of [
    ['enqueue:before-commit', 0],
    ['enqueue:after-commit', 1],
  ] as const) {
    const once = await openForTest({ store, targets, crashAt: point })
    await expect(once.enqueue({ target: 'opaque', payload: 1 })).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
    await once.close()
    const next = await openForTest({ store, targets })
    expect(await next.list()).toHaveLength(count)
    await next.close()
  }
  api.failNext('reset-after-effect')
  const worker = await openForTest({ store, targets })
  await worker.startWorker({ drain: { horizonMs: 1000 } }).done
  expect(await worker.get(1)).toMatchObject({ state: 'held', reason: 'opaque' })
  await worker.close()
  for (const [point, state] of [
    ['resolve:before-commit', 'held'],
    ['resolve:after-commit', 'submitted'],
  ] as const) {
    const once = await openForTest({ store, targets, crashAt: point })
    await expect(once.resolve(1, { kind: 'task_id', taskId: 'task-1' })).rejects.toMatchObject({
      code: 'SIMULATED_CRASH',
    })
    await once.close()
    const next = await openForTest({ store, targets })
    expect((await next.get(1))?.state).toBe(state)
    await next.close()
  }
})

test('a store that is opened for a test can be backed up, and a backup that crashes has its name or none', async () => {
  const folder = tempDir()
  const copy = join(folder, 'copy.db')
  for (const [point, made] of [
    ['backup:before-commit', false],
    ['backup:after-commit', true],
  ] as const) {
    const once = await openForTest({ store: join(folder, 'jobs.db'), targets: [], crashAt: point })
    await expect(once.backup(copy)).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
    await once.close()
    expect(existsSync(copy)).toBe(made)
  }
})

test("a dead store takes nothing more, also not inside the caller's transaction", async () => {
  const store = join(tempDir(), 'jobs.db')
  const api = await openFakeApi({ kind: 'keyed' })
  const once = await openForTest({ store, targets: [keyed(api.url)], crashAt: 'enqueue:before-commit' })
  await expect(once.enqueue({ target: 'keyed', payload: { n: 1 } })).rejects.toThrow('crashed at enqueue:before-commit')
  const db = new Database(store)
  db.pragma('synchronous = FULL')
  const enqueue = db.transaction(() => once.enqueueIn(db, { target: 'keyed', payload: { n: 2 } }))
  expect(() => enqueue.immediate()).toThrow(expect.objectContaining({ code: 'SIMULATED_CRASH' }))
  db.close()
  await once.close()
})

test('a point that is none is refused', async () => {
  const opening = openForTest({ store: join(tempDir(), 'jobs.db'), targets: [], crashAt: 'call:answerd' as CrashPoint })
  await expect(opening).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining('call:answered') })
})

test('the n-th passing can be chosen', async () => {
  const api = await openFakeApi({ kind: 'keyed', answer })
  const store = join(tempDir(), 'jobs.db')
  const once = await openForTest({ store, targets: [keyed(api.url)], crashAt: { point: 'call:answered', nth: 3 } })
  for (const n of [1, 2, 3, 4]) await once.enqueue({ target: 'keyed', payload: { n } })
  await expect(once.startWorker({ concurrency: 1 }).done).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
  expect(api.effects).toHaveLength(3)
  await once.close()
})
