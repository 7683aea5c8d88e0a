// waitFor and events: told by this process's commits and by others'.
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineTarget, type OpenTargets, openOnceish, RejectedError, type RequestEvent } from '../../src/index.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'

const echo = defineTarget({
  name: 'echo',
  version: '1',
  payload: z.object({ n: z.number() }),
  invoke: ({ payload }) => {
    if (payload.n < 0) throw new RejectedError('negative')
    return { taskId: `t${payload.n}` }
  },
})

async function open(path = join(tempDir(), 'jobs.db'), options: Partial<OpenTargets<readonly [typeof echo]>> = {}) {
  const once = await openOnceish({ store: path, targets: [echo], ...options })
  onTestFinished(() => once.close())
  return once
}

test("many wait at once, each for its own end, one by another connection's worker", async () => {
  const path = join(tempDir(), 'jobs.db')
  const [producer, consumer] = [await open(path), await open(path)]
  const made = await producer.enqueueMany(
    Array.from({ length: 300 }, (_, n) => ({ target: 'echo' as const, payload: { n } })),
  )
  const all = Promise.all(made.map(({ requestId }) => producer.waitFor(requestId)))
  const worker = consumer.startWorker()
  const views = await all
  expect(views.map(({ taskId }) => taskId)).toEqual(made.map((_, n) => `t${n}`))
  await worker.stop()
})

test('an end that needs a person, and one that was there before the wait, are told too', async () => {
  const once = await open()
  const { requestId } = await once.enqueue({ target: 'echo', payload: { n: -1 } })
  const worker = once.startWorker()
  expect(await once.waitFor(requestId)).toMatchObject({ state: 'dead', lastError: expect.stringContaining('negative') })
  expect(await once.waitFor(requestId)).toMatchObject({ state: 'dead' })
  await worker.stop()
})

test('a wait without an end is no wait of no time, and nonsense is refused', async () => {
  const once = await open()
  const { requestId } = await once.enqueue({ target: 'echo', payload: { n: 1 } })
  const waits = [Number.POSITIVE_INFINITY, 30 * 86_400_000].map((timeoutMs) => once.waitFor(requestId, { timeoutMs }))
  const worker = once.startWorker()
  expect((await Promise.all(waits)).map(({ state }) => state)).toEqual(['submitted', 'submitted'])
  await worker.stop()
  await expect(once.waitFor(requestId, { timeoutMs: Number.NaN })).rejects.toMatchObject({ code: 'REQUEST_INVALID' })
  await expect(once.waitFor('1' as never)).rejects.toMatchObject({ code: 'REQUEST_INVALID' })
})

test('a wait ends by its time, by its signal, by an unknown id and by close', async () => {
  const once = await open()
  const { requestId } = await once.enqueue({ target: 'echo', payload: { n: 1 } })
  await expect(once.waitFor(requestId, { timeoutMs: 20 })).rejects.toMatchObject({ code: 'WAIT_TIMEOUT' })
  await expect(once.waitFor(4711)).rejects.toMatchObject({ code: 'REQUEST_NOT_FOUND' })
  await expect(once.waitFor(requestId, { signal: AbortSignal.abort(new Error('gone')) })).rejects.toThrow('gone')
  const abort = new AbortController()
  const aborted = once.waitFor(requestId, { signal: abort.signal })
  abort.abort(new Error('changed my mind'))
  await expect(aborted).rejects.toThrow('changed my mind')
  const closed = once.waitFor(requestId)
  closed.catch(() => {})
  await once.close()
  await expect(closed).rejects.toMatchObject({ code: 'STORE_CLOSED' })
})

test("events come from now on: those of the log from any process, and this process's plain submissions", async () => {
  const path = join(tempDir(), 'jobs.db')
  const once = await open(path)
  await once.pause('echo', 'before')
  const events = once.events()
  const seen: RequestEvent[] = []
  const reading = (async () => {
    for await (const event of events) seen.push(event)
  })()
  await once.resume('echo')
  const [good, bad] = await once.enqueueMany([
    { target: 'echo', payload: { n: 1 } },
    { target: 'echo', payload: { n: -1 } },
  ])
  const worker = once.startWorker()
  await Promise.all([once.waitFor(good?.requestId ?? 0), once.waitFor(bad?.requestId ?? 0)])
  const elsewhere = await open(path)
  await elsewhere.pause('echo', 'by another')
  await waitFor(() => seen.length === 4, { what: 'the four events' })
  await worker.stop()
  await once.close()
  await reading
  const told = seen.map(({ kind, requestId, eventId }) => ({ kind, requestId, isStored: eventId !== null }))
  expect(told).toHaveLength(4)
  expect(told).toEqual(
    expect.arrayContaining([
      { kind: 'target_resumed', requestId: null, isStored: true },
      { kind: 'submitted', requestId: good?.requestId, isStored: false },
      { kind: 'dead', requestId: bad?.requestId, isStored: true },
      { kind: 'target_paused', requestId: null, isStored: true },
    ]),
  )
  expect(seen.find(({ kind }) => kind === 'submitted')?.detail).toEqual({ taskId: 't1' })
})

test('a reader that leaves is let go at once, also while it waits; after close there is nothing to read', async () => {
  const once = await open()
  const iterator = once.events()[Symbol.asyncIterator]()
  const waiting = iterator.next()
  expect(await iterator.return?.()).toMatchObject({ done: true })
  expect(await waiting).toMatchObject({ done: true })
  for (let i = 0; i < 5; i++) await (i % 2 === 0 ? once.pause('echo', `${i}`) : once.resume('echo'))
  for await (const { eventId } of once.events({ afterId: 0 })) if (eventId === 2) break
  await once.close()
  await expect(once.events({ afterId: 0 })[Symbol.asyncIterator]().next()).rejects.toMatchObject({
    code: 'STORE_CLOSED',
  })
})

test('a reader goes on after the last event that it has seen, in pages, and ends by its signal', async () => {
  const once = await open()
  for (let i = 0; i < 1200; i++) await (i % 2 === 0 ? once.pause('echo', `${i}`) : once.resume('echo'))
  const abort = new AbortController()
  const ids: number[] = []
  for await (const { eventId } of once.events({ afterId: 100, signal: abort.signal })) {
    ids.push(eventId ?? 0)
    if (eventId === 1190) abort.abort()
  }
  expect(ids).toEqual(Array.from({ length: 1090 }, (_, i) => i + 101))
})
