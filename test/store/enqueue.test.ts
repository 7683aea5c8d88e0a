import { expect, test } from 'vitest'
import { hashRequest } from '../support/hash-request.ts'
import { accepted, answer, openWorld } from '../support/store.ts'

test('the same target and payload is the same request, however its members are ordered', async () => {
  const { enqueue, store } = await openWorld()
  const first = await enqueue({ a: 1, b: 2 })
  const again = await enqueue({ b: 2, a: 1 })
  expect(first).toMatchObject({ kind: 'inserted', state: 'ready' })
  expect(again).toEqual({ kind: 'duplicate', requestId: first.requestId, state: 'ready', taskId: null })
  expect((await store.status()).states).toEqual({ ready: 1 })
  await store.close()
})

test('a given hash with another payload is a conflict that queues nothing, also after the payload is gone', async () => {
  const { enqueue, turn, store } = await openWorld()
  const hashed = (payload: unknown) => hashRequest({ target: 'keyed', payload, given: 'order-7' })
  await enqueue({ n: 1 }, hashed({ n: 1 }))
  expect(await enqueue({ n: 2 }, hashed({ n: 2 }))).toMatchObject({ kind: 'conflict', state: 'ready' })
  const { calls } = await turn({ slots: 1 })
  await turn({ results: calls.map((call) => answer(call, accepted('t1'))) })
  expect(await enqueue({ n: 2 }, hashed({ n: 2 }))).toMatchObject({ kind: 'conflict', state: 'submitted' })
  expect(await enqueue({ n: 1 }, hashed({ n: 1 }))).toMatchObject({ kind: 'duplicate', taskId: 't1' })
  expect((await store.status()).states).toEqual({ submitted: 1 })
  await store.close()
})

test('the same given hash on two targets makes two requests', async () => {
  const { enqueue, store } = await openWorld()
  await enqueue({ n: 1 }, hashRequest({ target: 'keyed', payload: { n: 1 }, given: 'x' }))
  const other = await enqueue(
    { n: 1 },
    { target: 'opaque', ...hashRequest({ target: 'opaque', payload: { n: 1 }, given: 'x' }) },
  )
  expect(other.kind).toBe('inserted')
  await store.close()
})

test('a canceled request frees its hash, and the next one for it takes the next generation', async () => {
  const { enqueue, turn, store } = await openWorld()
  const first = await enqueue({ n: 1 })
  const word = { now: 1, actor: 't', note: null, ifVersion: null }
  expect(await store.cancel(first.requestId, word)).toMatchObject({ kind: 'applied', view: { state: 'canceled' } })
  const second = await enqueue({ n: 1 })
  expect(second.kind).toBe('inserted')
  expect(second.requestId).toBeGreaterThan(first.requestId)
  const { calls } = await turn({ slots: 5 })
  expect(calls.map((call) => [call.requestId, call.generation])).toEqual([[second.requestId, 2]])
  await store.close()
})

test('a live hash is free once its request is settled, under a new generation and so a new key', async () => {
  const { enqueue, turn, store } = await openWorld()
  await enqueue({ n: 1 }, { dedupe: 'live' })
  expect((await enqueue({ n: 1 }, { dedupe: 'live' })).kind).toBe('duplicate')
  const first = (await turn({ slots: 1 })).calls
  await turn({ results: first.map((call) => answer(call, accepted('t1'))) })
  expect((await enqueue({ n: 1 }, { dedupe: 'live' })).kind).toBe('inserted')
  const second = (await turn({ slots: 1 })).calls
  expect(second[0]?.generation).toBe(2)
  await store.close()
})

test('ids of deleted requests are never used again', async () => {
  const { enqueue, turn, store } = await openWorld()
  const first = await enqueue({ n: 1 })
  const { calls } = await turn({ slots: 1 })
  await turn({ results: calls.map((call) => answer(call, accepted('t1'))) })
  const second = await enqueue({ n: 2 })
  expect(second.requestId).toBeGreaterThan(first.requestId)
  await store.close()
})

test('a conflict rolls a whole batch back when it is told to stop there', async () => {
  const { enqueue, store, clock } = await openWorld()
  await enqueue({ n: 1 }, hashRequest({ target: 'keyed', payload: { n: 1 }, given: 'x' }))
  const base = {
    target: 'keyed',
    priority: 0,
    dueAt: null,
    orderingKey: null,
    group: null,
    dedupe: 'always',
    expiresAt: null,
  } as const
  const batch = [
    { ...base, payload: '{"n":9}', ...hashRequest({ target: 'keyed', payload: { n: 9 } }) },
    { ...base, payload: '{"n":2}', ...hashRequest({ target: 'keyed', payload: { n: 2 }, given: 'x' }) },
  ]
  const stopped = await store.enqueue(batch, clock.now, { stopAtRefusal: true })
  expect(stopped.at(-1)?.kind).toBe('conflict')
  expect((await store.status()).states).toEqual({ ready: 1 })
  await store.enqueue(batch, clock.now)
  expect((await store.status()).states).toEqual({ ready: 2 })
  await store.close()
})

test('a future due time is scheduled and stays out of the claim until it comes', async () => {
  const { enqueue, turn, clock, store } = await openWorld()
  expect(await enqueue({ n: 1 }, { dueAt: clock.now + 500 })).toMatchObject({ state: 'scheduled' })
  const early = await turn({ slots: 1 })
  expect(early.calls).toEqual([])
  expect(early.nextDueAt).toBe(clock.now + 500)
  clock.now += 500
  expect((await turn({ slots: 1 })).calls).toHaveLength(1)
  await store.close()
})
