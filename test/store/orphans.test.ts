// Orphans: the tasks beyond those that requests were settled on, and the two words that take them off the list.
import { expect, test } from 'vitest'
import type { TargetPolicy } from '../../src/core/policy.ts'
import type { OperatorWord } from '../../src/store/views.ts'
import { accepted, answer, KEYED, LOOKUP, OPAQUE, openWorld, unknown, type World } from '../support/store.ts'

const policies: Record<string, TargetPolicy> = { keyed: KEYED, opaque: OPAQUE, lookup: LOOKUP }
const policyOf = (target: string) => policies[target]

const word = (world: World, fields: Partial<OperatorWord> = {}): OperatorWord => {
  return { now: world.clock.now, actor: 'cli:ann', note: null, ifVersion: null, ...fields }
}

/** A request that is submitted on task `second`, whose first call made task `first` after all. */
async function orphaned(world: World): Promise<number> {
  await world.enqueue({ n: Math.random() }, { target: 'opaque' })
  const [call] = (await world.turn({ slots: 1 })).calls
  if (call === undefined) throw new Error('nothing was called')
  await world.turn({ results: [answer(call, unknown())] })
  const { requestId } = call
  const again = { kind: 'retry_accepting_duplicates' } as const
  await world.store.resolve(requestId, again, word(world), { force: true, policyOf })
  const [second] = (await world.turn({ slots: 1 })).calls
  if (second === undefined) throw new Error('nothing was called again')
  await world.turn({ results: [answer(second, accepted('second'))] })
  await world.turn({ results: [answer(call, accepted('first'))] })
  return requestId
}

async function purged(world: World): Promise<object> {
  const scope = { before: world.clock.now, states: ['submitted'] as const, targets: null, abandoned: false }
  const purge = { now: world.clock.now, actor: 'cli:ann', dryRun: false }
  return (await world.store.purgeAfter(0, scope, purge)).purged
}

test('an orphan is listed with its evidence and its request, and keeps that from being purged', async () => {
  const world = await openWorld()
  const requestId = await orphaned(world)
  expect(await world.store.orphans(5)).toMatchObject([
    {
      orphanId: 1,
      taskId: 'first',
      evidence: { status: 200 },
      request: { requestId, state: 'submitted', taskId: 'second' },
    },
  ])
  expect((await world.store.status()).orphans).toBe(1)
  expect(await purged(world)).toEqual({})
  await world.store.close()
})

test('dismissed: gone from the list, on record, and its request may be purged', async () => {
  const world = await openWorld()
  const requestId = await orphaned(world)
  expect(await world.store.dismissOrphan(1, word(world, { note: 'refunded' }))).toMatchObject({ kind: 'applied' })
  expect(await world.store.orphans(5)).toEqual([])
  const { timeLine = [] } = (await world.store.get(requestId)) ?? {}
  expect(timeLine.at(-1)).toMatchObject({ kind: 'orphan_dismissed', actor: 'cli:ann', note: 'refunded' })
  expect(await world.store.dismissOrphan(1, word(world))).toEqual({ kind: 'unchanged' })
  expect(await world.store.dismissOrphan(2, word(world))).toEqual({ kind: 'not_found' })
  expect(await purged(world)).toEqual({ submitted: 1 })
  await world.store.close()
})

test('adopted: the request has the orphan for its task, and the task that it had is the orphan', async () => {
  const world = await openWorld()
  const requestId = await orphaned(world)
  const { version = 0 } = (await world.store.get(requestId)) ?? {}
  const stale = word(world, { ifVersion: version - 1 })
  expect(await world.store.adoptOrphan(1, stale, policyOf)).toMatchObject({ kind: 'version_changed' })
  const seen = word(world, { ifVersion: version, note: 'this one was delivered' })
  expect(await world.store.adoptOrphan(1, seen, policyOf)).toMatchObject({
    kind: 'applied',
    orphan: { request: { state: 'submitted', taskId: 'first' } },
  })
  expect(await world.store.orphans(5)).toMatchObject([{ orphanId: 2, taskId: 'second' }])
  expect((await world.store.get(requestId))?.events).toContainEqual(
    expect.objectContaining({
      kind: 'orphan_adopted',
      actor: 'cli:ann',
      detail: expect.objectContaining({ taskId: 'first', instead: 'second', note: 'this one was delivered' }),
    }),
  )
  expect(await world.store.adoptOrphan(1, word(world), policyOf)).toEqual({ kind: 'unchanged' })
  await world.store.close()
})

test('an orphan of a request that was queued again is adopted before a second call', async () => {
  const world = await openWorld()
  await world.enqueue({ n: 1 }, { target: 'lookup' })
  const [call] = (await world.turn({ slots: 1 })).calls
  if (call === undefined) throw new Error('nothing was called')
  await world.store.cancel(call.requestId, word(world))
  await world.turn({ results: [answer(call, accepted('T'))] })
  const again = { kind: 'retry_accepting_duplicates' } as const
  await world.store.resolve(call.requestId, again, word(world), { force: true, policyOf })
  expect(await world.store.adoptOrphan(1, word(world), policyOf)).toMatchObject({
    kind: 'applied',
    orphan: { request: { state: 'submitted', taskId: 'T' } },
  })
  expect((await world.turn({ slots: 1 })).calls).toEqual([])
  expect(await world.store.orphans(5)).toEqual([])
  await world.store.close()
})

test('what was given up in doubt and happened after all is submitted on its task', async () => {
  const world = await openWorld()
  await world.enqueue({ n: 1 }, { target: 'opaque' })
  const [call] = (await world.turn({ slots: 1 })).calls
  if (call === undefined) throw new Error('nothing was called')
  await world.turn({ results: [answer(call, unknown())] })
  await world.store.resolve(call.requestId, { kind: 'abandon' }, word(world), { force: true, policyOf })
  await world.turn({ results: [answer(call, accepted('late'))] })
  await world.store.adoptOrphan(1, word(world), policyOf)
  expect((await world.store.get(call.requestId))?.taskState).toMatchObject({
    state: 'submitted',
    taskId: 'late',
    abandoned: false,
    doubtfulAttempts: [],
  })
  expect(await purged(world)).toEqual({ submitted: 1 })
  await world.store.close()
})

test('of a request that is being called, was canceled or was purged an orphan is only dismissed', async () => {
  const world = await openWorld()
  const requestId = await orphaned(world)
  await world.enqueue({ n: 1 }, { target: 'opaque' })
  const [running] = (await world.turn({ slots: 1 })).calls
  await world.enqueue({ n: 2 }, { target: 'opaque' })
  const [canceled] = (await world.turn({ slots: 1 })).calls
  if (running === undefined || canceled === undefined) throw new Error('nothing was called')
  await world.turn({ results: [answer(canceled, unknown())] })
  await world.store.cancel(canceled.requestId, word(world))
  await world.store.resolve(canceled.requestId, { kind: 'not_executed' }, word(world), { force: true, policyOf })
  await world.turn({ results: [answer(canceled, accepted('C'))] })
  expect(await world.store.adoptOrphan(2, word(world), policyOf)).toMatchObject({
    kind: 'refused',
    why: expect.stringContaining('canceled'),
  })
  await world.store.dismissOrphan(1, word(world))
  expect(await purged(world)).toEqual({ submitted: 1 })
  // A late answer of what is purged by now.
  const gone = { ...running, requestId, attempt: 1, nonce: 'n' }
  await world.turn({ results: [answer(gone, accepted('first'))] })
  expect(await world.store.orphans(5)).toMatchObject([{ taskId: 'C' }, { taskId: 'first', request: null }])
  expect(await world.store.adoptOrphan(3, word(world), policyOf)).toMatchObject({ kind: 'refused' })
  expect(await world.store.dismissOrphan(3, word(world))).toMatchObject({ kind: 'applied' })
  await world.store.close()
})
