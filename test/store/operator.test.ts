import { statSync } from 'node:fs'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import type { TargetPolicy } from '../../src/core/policy.ts'
import type { ClaimedCall } from '../../src/store/turn.ts'
import type { OperatorWord, Resolution } from '../../src/store/views.ts'
import { testOnSqlite } from '../support/engine.ts'
import {
  accepted,
  answer,
  KEYED,
  LOOKUP,
  notExecuted,
  OPAQUE,
  openWorld,
  rejected,
  unknown,
  type World,
} from '../support/store.ts'

const policies: Record<string, TargetPolicy> = { keyed: KEYED, opaque: OPAQUE, lookup: LOOKUP }
const policyOf = (target: string) => policies[target]
const REPLAYED: TargetPolicy = {
  ...KEYED,
  key: { ...(KEYED.key as NonNullable<TargetPolicy['key']>), failedFirst: 'replayed' },
}
const ALWAYS = { force: true, policyOf }

function word(world: World, fields: Partial<OperatorWord> = {}): OperatorWord {
  return { now: world.clock.now, actor: 'cli:ann', note: null, ifVersion: null, ...fields }
}

async function claimOne(world: World, target: string): Promise<ClaimedCall> {
  await world.enqueue({ n: Math.random() }, { target })
  return (await world.turn({ slots: 1 })).calls[0] as ClaimedCall
}

async function hold(world: World, target = 'opaque'): Promise<ClaimedCall> {
  const call = await claimOne(world, target)
  await world.turn({ results: [answer(call, unknown())] })
  const row = (await world.store.get(call.requestId))?.taskState
  const policy = target === 'keyed' ? KEYED : target === 'lookup' ? LOOKUP : OPAQUE
  const verdict = { kind: 'hold', reason: 'opaque', evidence: null } as const
  await world.turn({
    reconciliations: [{ requestId: call.requestId, target, version: row?.version ?? 0, policy, verdict }],
  })
  return call
}

test('it happened: the task id is stored and the request is gone', async () => {
  const world = await openWorld()
  const { requestId } = await hold(world)
  const happened: Resolution = { kind: 'task_id', taskId: 'T' }
  expect(
    await world.store.resolve(requestId, happened, word(world, { note: 'seen in the console' }), ALWAYS),
  ).toMatchObject({ kind: 'applied', view: { state: 'submitted', taskId: 'T' } })
  expect(await world.store.resolve(requestId, happened, word(world), ALWAYS)).toMatchObject({ kind: 'unchanged' })
  const { events } = (await world.store.get(requestId)) ?? {}
  expect(events?.at(-1)).toMatchObject({ kind: 'resolved', actor: 'cli:ann', detail: { note: 'seen in the console' } })
  await world.store.close()
})

test('it did not happen: ready again under the same generation, and for a key with the same bytes', async () => {
  const world = await openWorld()
  for (const target of ['opaque', 'keyed']) {
    const first = await hold(world, target)
    await world.store.resolve(first.requestId, { kind: 'not_executed' }, word(world), ALWAYS)
    const again = (await world.turn({ slots: 1 })).calls[0] as ClaimedCall
    expect(again).toMatchObject({ requestId: first.requestId, attempt: 2, generation: 1, key: first.key })
    expect(again.prepared).toEqual(first.prepared)
    await world.turn({ results: [answer(again, accepted('T'))] })
  }
  await world.store.close()
})

test('a duplicate is accepted: the next generation, a new key, and only this one attempt', async () => {
  const world = await openWorld()
  const first = await hold(world, 'keyed')
  await world.store.resolve(first.requestId, { kind: 'retry_accepting_duplicates' }, word(world), ALWAYS)
  const again = (await world.turn({ slots: 1 })).calls[0] as ClaimedCall
  expect(again.generation).toBe(2)
  expect(again.key).not.toBe(first.key)
  await world.turn({ results: [answer(again, unknown())] })
  expect((await world.store.get(first.requestId))?.state).toBe('unknown')
  await world.store.close()
})

test('abandoned: dead with the doubt mark, which neither retry nor cancel takes away', async () => {
  const world = await openWorld()
  const { requestId } = await hold(world)
  await world.store.resolve(requestId, { kind: 'abandon' }, word(world), ALWAYS)
  expect((await world.store.get(requestId))?.taskState).toMatchObject({
    state: 'dead',
    abandoned: true,
    doubtfulAttempts: [1],
  })
  expect(await world.store.retry(requestId, word(world), { policyOf })).toMatchObject({ kind: 'refused' })
  expect(await world.store.cancel(requestId, word(world))).toMatchObject({ kind: 'refused' })
  await world.store.close()
})

test('a word that leads to a call waits until the last call can no longer land, unless forced', async () => {
  const world = await openWorld()
  const { requestId } = await hold(world)
  const careful = { force: false, policyOf }
  for (const kind of ['not_executed', 'retry_accepting_duplicates'] as const) {
    expect(await world.store.resolve(requestId, { kind }, word(world), careful)).toMatchObject({
      kind: 'refused',
      why: expect.stringContaining('--force'),
    })
  }
  world.clock.now += 30_001
  expect(await world.store.resolve(requestId, { kind: 'not_executed' }, word(world), careful)).toMatchObject({
    kind: 'applied',
  })
  await world.store.close()
})

test('a running call is not resolved, and a version that has moved on is told', async () => {
  const world = await openWorld()
  const call = await claimOne(world, 'opaque')
  expect(await world.store.resolve(call.requestId, { kind: 'abandon' }, word(world), ALWAYS)).toMatchObject({
    kind: 'refused',
  })
  const held = await hold(world)
  const { version = 0 } = (await world.store.get(held.requestId)) ?? {}
  const stale = word(world, { ifVersion: version - 1 })
  expect(await world.store.resolve(held.requestId, { kind: 'abandon' }, stale, ALWAYS)).toMatchObject({
    kind: 'version_changed',
  })
  const seen = word(world, { ifVersion: version })
  expect(await world.store.resolve(held.requestId, { kind: 'abandon' }, seen, ALWAYS)).toMatchObject({
    kind: 'applied',
  })
  await world.store.close()
})

test('retry takes a dead request back with a whole budget, and refuses doubt, naming what to use', async () => {
  const world = await openWorld()
  const call = await claimOne(world, 'keyed')
  await world.turn({ results: [answer(call, rejected)] })
  expect(await world.store.retry(call.requestId, word(world), { policyOf: () => REPLAYED })).toMatchObject({
    kind: 'applied',
    view: { state: 'ready', attempts: 0 },
  })
  expect((await world.turn({ slots: 1 })).calls[0]).toMatchObject({ attempt: 2, generation: 2 })
  const held = await hold(world)
  expect(await world.store.retry(held.requestId, word(world), { policyOf })).toMatchObject({
    kind: 'refused',
    why: expect.stringContaining('resolve'),
  })
  expect(await world.store.retry(999, word(world), { policyOf })).toEqual({ kind: 'not_found' })
  await world.store.close()
})

test('cancel of a request in doubt stops submits and leaves the rest to recovery; of a submitted one it is refused', async () => {
  const world = await openWorld()
  const { requestId } = await hold(world, 'keyed')
  expect(await world.store.cancel(requestId, word(world))).toMatchObject({
    kind: 'applied',
    view: { state: 'unknown' },
  })
  expect(await world.store.cancel(requestId, word(world))).toMatchObject({ kind: 'unchanged' })
  const row = (await world.store.get(requestId))?.taskState
  const replay = { kind: 'replay', reason: 'unknown' } as const
  const { calls } = await world.turn({
    reconciliations: [{ requestId, target: 'keyed', version: row?.version ?? 0, policy: KEYED, verdict: replay }],
  })
  expect(calls).toEqual([])
  const done = await claimOne(world, 'keyed')
  await world.turn({ results: [answer(done, accepted('T'))] })
  expect(await world.store.cancel(done.requestId, word(world))).toMatchObject({
    kind: 'refused',
    why: expect.stringContaining('T'),
  })
  await world.store.close()
})

test('canceled while its call runs: no effect means canceled, a task means one to cancel at the API', async () => {
  const world = await openWorld()
  const first = await claimOne(world, 'keyed')
  const second = await claimOne(world, 'keyed')
  for (const { requestId } of [first, second]) await world.store.cancel(requestId, word(world))
  await world.turn({ results: [answer(first, notExecuted()), answer(second, accepted('T'))] })
  expect((await world.store.get(first.requestId))?.state).toBe('canceled')
  expect((await world.store.get(second.requestId))?.taskState).toMatchObject({
    state: 'unknown',
    taskId: 'T',
    cancelRequested: true,
  })
  await world.store.close()
})

test('a scheduled request that is canceled leaves the queue', async () => {
  const world = await openWorld()
  const { requestId } = await world.enqueue({ n: 1 }, { dueAt: world.clock.now + 1000 })
  await world.store.cancel(requestId, word(world))
  world.clock.now += 2000
  expect((await world.turn({ slots: 1 })).calls).toEqual([])
  await world.store.close()
})

testOnSqlite('the file is private, in WAL, and every commit is synced', async () => {
  const world = await openWorld()
  expect(statSync(world.path).mode & 0o777).toBe(0o600)
  expect(statSync(`${world.path}-wal`).mode & 0o777).toBe(0o600)
  const db = new Database(world.path, { readonly: true })
  expect(db.pragma('journal_mode', { simple: true })).toBe('wal')
  expect(db.prepare('SELECT state, logical_hash FROM request_overview').all()).toEqual([])
  db.close()
  await world.store.close()
})

test('a held row that knows its task is not "not executed"; a second call puts the first task on record', async () => {
  const world = await openWorld()
  const call = await claimOne(world, 'lookup')
  await world.store.cancel(call.requestId, word(world))
  await world.turn({ results: [answer(call, accepted('T'))] })
  const row = (await world.store.get(call.requestId))?.taskState
  const verdict = { kind: 'hold', reason: 'cancel_unsupported', evidence: null } as const
  await world.turn({
    reconciliations: [
      { requestId: call.requestId, target: 'lookup', version: row?.version ?? 0, policy: LOOKUP, verdict },
    ],
  })
  expect(await world.store.resolve(call.requestId, { kind: 'not_executed' }, word(world), ALWAYS)).toMatchObject({
    kind: 'refused',
    why: 'it happened: task T',
  })
  const again = await world.store.resolve(call.requestId, { kind: 'retry_accepting_duplicates' }, word(world), ALWAYS)
  expect(again).toMatchObject({ kind: 'applied', view: { state: 'ready', taskId: null } })
  expect(await world.store.orphans(10)).toMatchObject([{ taskId: 'T' }])
})

test('a task that a late answer named is not "not executed", and stays on record where the row goes on without it', async () => {
  const world = await openWorld()
  const first = await hold(world)
  await world.store.resolve(first.requestId, { kind: 'not_executed' }, word(world), ALWAYS)
  const second = (await world.turn({ slots: 1 })).calls[0] as ClaimedCall
  await world.turn({ results: [answer(first, accepted('T1')), answer(second, unknown())] })
  expect(await world.store.resolve(first.requestId, { kind: 'not_executed' }, word(world), ALWAYS)).toMatchObject({
    kind: 'refused',
    why: 'it happened: task T1',
  })
  await world.store.resolve(first.requestId, { kind: 'abandon' }, word(world), ALWAYS)
  expect(await world.store.orphans(5)).toMatchObject([{ taskId: 'T1' }])
})

test('a task that was put aside as an orphan is none any more once its request is settled on it', async () => {
  const world = await openWorld()
  const call = await claimOne(world, 'keyed')
  await world.store.cancel(call.requestId, word(world))
  await world.turn({ results: [answer(call, accepted('T'))] })
  await world.store.resolve(call.requestId, { kind: 'retry_accepting_duplicates' }, word(world), ALWAYS)
  expect(await world.store.orphans(5)).toMatchObject([{ taskId: 'T' }])
  await world.turn({ results: [answer(call, accepted('T'))] })
  expect(await world.store.get(call.requestId)).toMatchObject({ state: 'submitted', taskId: 'T', orphans: [] })
  expect(await world.store.orphans(5)).toEqual([])
})

test('"not executed" of a request that is to be canceled cancels it: no call follows', async () => {
  const world = await openWorld()
  const { requestId } = await hold(world)
  await world.store.cancel(requestId, word(world))
  const said = () => world.store.resolve(requestId, { kind: 'not_executed' }, word(world), ALWAYS)
  expect(await said()).toMatchObject({ kind: 'applied', view: { state: 'canceled' } })
  expect(await said()).toMatchObject({ kind: 'unchanged' })
  expect((await world.turn({ slots: 1 })).calls).toEqual([])
})

test('"it happened" ends a row whose known task could not be canceled', async () => {
  const world = await openWorld()
  const call = await claimOne(world, 'lookup')
  await world.store.cancel(call.requestId, word(world))
  await world.turn({ results: [answer(call, accepted('T'))] })
  const happened: Resolution = { kind: 'task_id', taskId: 'T' }
  expect(await world.store.resolve(call.requestId, happened, word(world), ALWAYS)).toMatchObject({
    kind: 'applied',
    view: { state: 'submitted', taskId: 'T' },
  })
})

test('a repeated answer of a call that was sent back changes nothing of the row that its first answer held', async () => {
  const world = await openWorld()
  const call = await claimOne(world, 'keyed')
  const happened = { kind: 'accepted_without_id', evidence: { phase: 'answered', status: 200 } } as const
  await world.turn({ results: [answer(call, happened)] })
  await world.store.resolve(call.requestId, { kind: 'retry_accepting_duplicates' }, word(world), ALWAYS)
  const held = { state: 'held', reason: 'executed_without_id' }
  const first = await world.turn({ results: [answer(call, happened)] })
  expect(first.settled).toMatchObject([{ ...held, applied: true }])
  for (const outcome of [happened, rejected, notExecuted()]) {
    const { settled } = await world.turn({ results: [answer(call, outcome)] })
    expect(settled).toMatchObject([{ state: 'held', applied: false }])
  }
  expect((await world.store.get(call.requestId))?.taskState).toMatchObject(held)
  const late = await world.turn({ results: [answer(call, accepted('t1'))] })
  expect(late.settled).toMatchObject([{ state: 'submitted', applied: true }])
  await world.store.close()
})

test('a task that came while its request was canceled, and that nobody can cancel, is given up as an orphan, or kept', async () => {
  const world = await openWorld()
  const canceling = async () => {
    await world.enqueue({ n: Math.random() })
    const call = (await world.turn({ slots: 1 })).calls[0] as ClaimedCall
    await world.store.cancel(call.requestId, word(world))
    await world.turn({ results: [answer(call, accepted(`task-${call.requestId}`))] })
    const { requestId, target } = call
    const version = (await world.store.get(requestId))?.version ?? 0
    const verdict = { kind: 'hold', reason: 'cancel_unsupported', evidence: null } as const
    await world.turn({ reconciliations: [{ requestId, target, version, policy: KEYED, verdict }] })
    return requestId
  }
  const [given, kept] = [await canceling(), await canceling()]
  expect(await world.store.get(given)).toMatchObject({ state: 'held', reason: 'cancel_unsupported', taskId: 'task-1' })
  expect(await world.store.resolve(given, { kind: 'abandon' }, word(world), ALWAYS)).toMatchObject({
    view: { state: 'dead', taskId: null },
  })
  expect(await world.store.orphans(5)).toMatchObject([{ requestId: given, taskId: 'task-1' }])
  expect((await world.store.get(given))?.events).toContainEqual(
    expect.objectContaining({ kind: 'orphan', reason: 'task_of_an_ended_request' }),
  )
  await world.store.resolve(kept, { kind: 'task_id', taskId: 'task-2' }, word(world), ALWAYS)
  expect(await world.store.get(kept)).toMatchObject({ state: 'submitted', taskId: 'task-2', orphans: [] })
  await world.store.close()
})
