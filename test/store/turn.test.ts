import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import type { Outcome } from '../../src/core/outcome.ts'
import type { Reconciliation, ReconciliationVerdict } from '../../src/core/reconciliation.ts'
import type { Claimable, ClaimedCall } from '../../src/store/turn.ts'
import { askStore } from '../support/ask-store.ts'
import { testOnSqlite } from '../support/engine.ts'
import {
  accepted,
  answer,
  blocked,
  KEYED,
  LOOKUP,
  notExecuted,
  OPAQUE,
  openWorld,
  rejected,
  unknown,
  type World,
} from '../support/store.ts'

async function claimOne(world: World, target = 'keyed'): Promise<ClaimedCall> {
  await world.enqueue({ n: Math.random() }, { target })
  const { calls } = await world.turn({ slots: 1 })
  return calls[0] as ClaimedCall
}

const unsent: Outcome = {
  kind: 'not_executed',
  refund: true,
  written: false,
  retryAfterMs: null,
  evidence: { phase: 'not_sent', error: 'lease_too_short', rule: 'lease' },
}

async function stateOf(world: World, requestId: number) {
  return (await world.store.get(requestId))?.taskState
}

async function reconcile(world: World, requestId: number, verdict: ReconciliationVerdict, policy = KEYED) {
  const row = await stateOf(world, requestId)
  const reconciliation: Reconciliation = {
    requestId,
    target: row?.target ?? '',
    version: row?.version ?? 0,
    policy,
    verdict,
  }
  return world.turn({ reconciliations: [reconciliation] })
}

const miss = { phase: 'answered', status: 200 } as const

test('claims go by priority, then due time, then id, over all targets', async () => {
  const world = await openWorld()
  const put = (n: number, priority: number, target: string, dueAt: number | null = null) =>
    world.enqueue({ n }, { priority, target, dueAt })
  await put(1, 0, 'keyed')
  await put(2, 5, 'opaque')
  await put(3, 5, 'keyed')
  await put(4, -1, 'keyed')
  await put(5, 5, 'lookup', world.clock.now - 10)
  const order: unknown[] = []
  for (;;) {
    const { calls } = await world.turn({ slots: 1 })
    if (calls.length === 0) break
    order.push(JSON.parse(calls[0]?.payload ?? '').n)
  }
  expect(order).toEqual([5, 2, 3, 1, 4])
  await world.store.close()
})

test('the invoking row is there when the claim returns, and the settlement keeps the id and drops the request', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  expect(await stateOf(world, call.requestId)).toMatchObject({
    state: 'invoking',
    attempt: 1,
    nonce: call.nonce,
    attempts: 1,
  })
  await world.turn({ results: [answer(call, accepted('t-1'))] })
  expect(await askStore(world.path, 'SELECT * FROM requests')).toEqual([])
  expect(await askStore(world.path, 'SELECT state, task_id FROM task_state')).toEqual([
    { state: 'submitted', task_id: 't-1' },
  ])
  await world.store.close()
})

test('an answer with another nonce is fenced', async () => {
  const world = await openWorld()
  const call = await claimOne(world, 'opaque')
  const { settled } = await world.turn({ results: [answer({ ...call, nonce: 'other' }, notExecuted())] })
  expect(settled[0]).toMatchObject({ applied: false })
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'invoking' })
  await world.store.close()
})

test('a lease that ran out permits investigation and never a call; the late answer settles the row all the same', async () => {
  const world = await openWorld()
  const call = await claimOne(world, 'opaque')
  world.clock.now += 10_001
  const expired = await world.turn({ slots: 4 })
  expect(expired.calls).toEqual([])
  expect(await stateOf(world, call.requestId)).toMatchObject({
    state: 'unknown',
    reason: 'lease_expired',
    endedAt: call.leaseUntil,
  })
  await reconcile(world, call.requestId, { kind: 'hold', reason: 'opaque', evidence: null }, OPAQUE)
  await world.turn({ results: [answer(call, accepted('late'))] })
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'submitted', taskId: 'late' })
  await world.store.close()
})

test('a renewal holds the lease, and one that comes after the row has moved on is told that it lost', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  world.clock.now += 9000
  expect((await world.turn({ renewals: [call] })).lost).toEqual([])
  world.clock.now += 9000
  await world.turn()
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'invoking' })
  world.clock.now += 2000
  await world.turn()
  expect((await world.turn({ renewals: [call] })).lost).toMatchObject([{ requestId: call.requestId }])
  await world.store.close()
})

test('a lease that has run out cannot be renewed, although nobody has looked at it since', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  world.clock.now += 10_001
  expect((await world.turn({ renewals: [call] })).lost).toMatchObject([{ requestId: call.requestId }])
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'unknown', reason: 'lease_expired' })
  await world.store.close()
})

test('a replay is told how long after its claim its bytes may still leave', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  world.clock.now += 5000
  await world.turn({ results: [answer(call, unknown(), world.clock.now)] })
  world.clock.now += 1000
  const { version } = (await stateOf(world, call.requestId)) ?? { version: 0 }
  const verdict = { kind: 'replay', reason: 'unproven' } as const
  const reconciliation = { requestId: call.requestId, target: 'keyed', version, policy: KEYED, verdict }
  const { calls } = await world.turn({ reconciliations: [reconciliation] })
  // The key is remembered for a day, sent bytes arrive within a second, and the first attempt is 6 s old.
  expect(calls).toMatchObject([{ attempt: 2, writeWithinMs: 86_400_000 - 1000 - 6000 }])
  await world.store.close()
})

test('surely no effect: scheduled with backoff, behind its peers, and dead when the budget is spent', async () => {
  const world = await openWorld()
  let call = await claimOne(world)
  for (const attempt of [1, 2]) {
    await world.turn({ results: [answer(call, notExecuted())] })
    expect((await world.store.get(call.requestId))?.state).toBe('scheduled')
    world.clock.now += 2000
    call = (await world.turn({ slots: 1 })).calls[0] as ClaimedCall
    expect(call.attempt).toBe(attempt + 1)
  }
  await world.turn({ results: [answer(call, notExecuted())] })
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'dead', reason: 'attempts_spent', attempts: 3 })
  await world.store.close()
})

test('a refunded attempt burns no budget', async () => {
  const world = await openWorld()
  let call = await claimOne(world)
  for (let i = 0; i < 10; i++) {
    await world.turn({ results: [answer(call, notExecuted(true))] })
    world.clock.now += 2000
    call = (await world.turn({ slots: 1 })).calls[0] as ClaimedCall
  }
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'invoking', attempt: 11, attempts: 1 })
  await world.store.close()
})

test('doubt is sticky: a replay that surely had no effect leads back to unknown, a refused one to held', async () => {
  const world = await openWorld()
  const first = await claimOne(world)
  await world.turn({ results: [answer(first, unknown())] })
  const second = (await reconcile(world, first.requestId, { kind: 'replay', reason: 'unknown' }))
    .calls[0] as ClaimedCall
  expect(second).toMatchObject({ attempt: 2, key: first.key, prepared: first.prepared })
  await world.turn({ results: [answer(second, notExecuted())] })
  expect(await stateOf(world, first.requestId)).toMatchObject({ state: 'unknown', doubtfulAttempts: [1] })
  const third = (await reconcile(world, first.requestId, { kind: 'replay', reason: 'unknown' })).calls[0] as ClaimedCall
  await world.turn({ results: [answer(third, rejected)] })
  expect(await stateOf(world, first.requestId)).toMatchObject({ state: 'held', reason: 'rejected_in_doubt' })
  await world.store.close()
})

test('a blocked answer pauses the target, keeps the request and its budget, and resume reopens it', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, blocked)] })
  expect((await world.store.status()).targets['keyed']).toMatchObject({
    paused: true,
    pauseReason: 'blocked: HTTP 401',
  })
  expect((await world.turn({ slots: 4 })).calls).toEqual([])
  expect(await world.store.resume('keyed', 'me', world.clock.now)).toBe(true)
  expect((await world.turn({ slots: 4 })).calls[0]).toMatchObject({ attempt: 2 })
  expect(await stateOf(world, call.requestId)).toMatchObject({ attempts: 1 })
  await world.store.close()
})

test('a replay is checked again where it is written: outside the window it is held', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, unknown())] })
  world.clock.now += KEYED.key?.rememberedForMs as number
  const { calls } = await reconcile(world, call.requestId, { kind: 'replay', reason: 'unknown' })
  expect(calls).toEqual([])
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'held', reason: 'key_window_closed' })
  await world.store.close()
})

test('a clock behind the high-water time delays a replay and does not hold', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, unknown())] })
  world.clock.now -= 3_600_000
  const { calls } = await reconcile(world, call.requestId, { kind: 'replay', reason: 'unknown' })
  expect(calls).toEqual([])
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'unknown', reason: 'clock_behind' })
  world.clock.now += 3_600_000
  expect((await reconcile(world, call.requestId, { kind: 'replay', reason: 'unknown' })).calls).toHaveLength(1)
  await world.store.close()
})

test('replays have a bound of their own and end held', async () => {
  const world = await openWorld()
  let call = await claimOne(world)
  for (let i = 0; i < 3; i++) {
    await world.turn({ results: [answer(call, unknown())] })
    call = (await reconcile(world, call.requestId, { kind: 'replay', reason: 'unknown' })).calls[0] as ClaimedCall
  }
  await world.turn({ results: [answer(call, unknown())] })
  await reconcile(world, call.requestId, { kind: 'replay', reason: 'unknown' })
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'held', reason: 'replays_spent', attempts: 1 })
  await world.store.close()
})

test('an answer that comes again gives back no second replay, and closes no target that was opened since', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, unknown())] })
  const replay = (await reconcile(world, call.requestId, { kind: 'replay', reason: 'unknown' })).calls[0] as ClaimedCall
  await world.turn({ results: [answer(replay, unknown())] })
  const last = (await reconcile(world, call.requestId, { kind: 'replay', reason: 'unknown' })).calls[0] as ClaimedCall
  await world.turn({ results: [answer(last, blocked)] })
  const settled = await stateOf(world, call.requestId)
  expect(settled).toMatchObject({ state: 'unknown', replays: 1, doubtfulAttempts: [1, 2] })
  await world.store.resume('keyed', 'a person', world.clock.now)
  const again = await world.turn({ results: [answer(last, blocked), answer(last, notExecuted(true))] })
  expect(again.settled.map(({ applied }) => applied)).toEqual([false, false])
  expect(await stateOf(world, call.requestId)).toMatchObject({ version: settled?.version, replays: 1 })
  expect((await world.store.status()).targets['keyed']?.paused).toBe(false)
  await world.store.close()
})

test('only as many settled misses as asked permit a new call, which takes the earlier doubt away', async () => {
  const world = await openWorld()
  const call = await claimOne(world, 'lookup')
  await world.turn({ results: [answer(call, unknown())] })
  await reconcile(world, call.requestId, { kind: 'recall', reason: 'settled_miss', evidence: miss }, LOOKUP)
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'held', reason: 'miss_without_proof' })
  const other = await claimOne(world, 'lookup')
  await world.turn({ results: [answer(other, unknown())] })
  await reconcile(
    world,
    other.requestId,
    { kind: 'later', at: 1, reason: 'settled_miss', missCounted: true, evidence: miss },
    LOOKUP,
  )
  const recall = (
    await reconcile(world, other.requestId, { kind: 'recall', reason: 'settled_miss', evidence: miss }, LOOKUP)
  ).calls[0] as ClaimedCall
  expect(recall).toMatchObject({ attempt: 2 })
  await world.turn({ results: [answer(recall, notExecuted())] })
  expect((await world.store.get(other.requestId))?.state).toBe('scheduled')
  await world.store.close()
})

test('what is known to be executed is never called again after a miss', async () => {
  const world = await openWorld()
  const call = await claimOne(world, 'lookup')
  await world.turn({ results: [answer(call, unknown(true))] })
  await reconcile(
    world,
    call.requestId,
    { kind: 'later', at: 1, reason: 'settled_miss', missCounted: true, evidence: miss },
    LOOKUP,
  )
  const { calls } = await reconcile(
    world,
    call.requestId,
    { kind: 'recall', reason: 'settled_miss', evidence: miss },
    LOOKUP,
  )
  expect(calls).toEqual([])
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'held' })
  await world.store.close()
})

test('a verdict on a version that is gone changes nothing', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, unknown())] })
  const row = await stateOf(world, call.requestId)
  const stale: Reconciliation = {
    requestId: call.requestId,
    target: 'keyed',
    version: (row?.version ?? 0) - 1,
    policy: KEYED,
    verdict: { kind: 'replay', reason: 'unknown' },
  }
  const result = await world.turn({ reconciliations: [stale] })
  expect(result.calls).toEqual([])
  expect(result.reconciled[0]).toMatchObject({ applied: false, reason: 'fenced' })
  await world.store.close()
})

test('a late answer under the same key settles the row that a newer attempt holds; another id is an orphan', async () => {
  const world = await openWorld()
  const first = await claimOne(world)
  await world.turn({ results: [answer(first, unknown())] })
  const second = (await reconcile(world, first.requestId, { kind: 'replay', reason: 'unknown' }))
    .calls[0] as ClaimedCall
  await world.turn({ results: [answer(first, accepted('t1'))] })
  expect(await stateOf(world, first.requestId)).toMatchObject({ state: 'submitted', taskId: 't1' })
  await world.turn({ results: [answer(second, accepted('t1'))] })
  expect(await world.store.orphans(10)).toEqual([])
  await world.turn({ results: [answer(second, accepted('t2'))] })
  expect(await world.store.orphans(10)).toMatchObject([{ requestId: first.requestId, taskId: 't2' }])
  expect(await stateOf(world, first.requestId)).toMatchObject({ taskId: 't1' })
  await world.store.close()
})

test('without a key an older answer waits for the newer attempt, and is the task where that had no effect', async () => {
  const world = await openWorld()
  const first = await claimOne(world, 'opaque')
  await world.turn({ results: [answer(first, unknown())] })
  await reconcile(world, first.requestId, { kind: 'hold', reason: 'opaque', evidence: null }, OPAQUE)
  const word = { now: world.clock.now + 60_000, actor: 'me', note: null, ifVersion: null }
  await world.store.resolve(first.requestId, { kind: 'retry_accepting_duplicates' }, word, {
    force: true,
    policyOf: () => OPAQUE,
  })
  world.clock.now += 60_000
  const second = (await world.turn({ slots: 1 })).calls[0] as ClaimedCall
  await world.turn({ results: [answer(first, accepted('old'))] })
  expect(await stateOf(world, first.requestId)).toMatchObject({
    state: 'invoking',
    olderAnswer: { attempt: 1, taskId: 'old' },
  })
  await world.turn({ results: [answer(second, notExecuted())] })
  expect(await stateOf(world, first.requestId)).toMatchObject({ state: 'submitted', taskId: 'old' })
  await world.store.close()
})

test('settling the same answer twice is a no-op', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, accepted('t1'))] })
  const { settled } = await world.turn({ results: [answer(call, accepted('t1'))] })
  expect(settled[0]).toMatchObject({ applied: false, reason: 'confirmed' })
  await world.store.close()
})

testOnSqlite('where SQLite itself undoes the transaction, nothing of the turn stands by itself', async () => {
  const world = await openWorld()
  const bad = await claimOne(world)
  const good = await claimOne(world)
  await world.enqueue({ n: 'next' })
  const db = new Database(world.path)
  db.exec(`CREATE TRIGGER undo BEFORE UPDATE ON task_state WHEN NEW.task_id = 'bad'
    BEGIN SELECT RAISE(ROLLBACK, 'the disk is gone'); END`)
  const results = [answer(bad, accepted('bad')), answer(good, accepted('t1'))]
  await expect(world.turn({ results, slots: 1 })).rejects.toThrow('the disk is gone')
  for (const { requestId } of [bad, good]) expect(await stateOf(world, requestId)).toMatchObject({ state: 'invoking' })
  expect((await world.store.status()).states).toEqual({ invoking: 2, ready: 1 })
  db.close()
  await world.store.close()
})

test('one answer that cannot be written is held and does not roll back the others', async () => {
  const world = await openWorld()
  const good = await claimOne(world)
  const bad = await claimOne(world)
  const broken = {
    kind: 'accepted',
    taskId: { not: 'text' } as unknown as string,
    evidence: { phase: 'answered', status: 200 },
  } as const
  await world.turn({ results: [answer(bad, broken), answer(good, accepted('t1'))] })
  expect(await stateOf(world, good.requestId)).toMatchObject({ state: 'submitted', taskId: 't1' })
  expect(await stateOf(world, bad.requestId)).toMatchObject({ state: 'held', reason: 'settlement_failed' })
  await world.store.close()
})

test('failures that the API remembers need a new key, which only a settled row may get', async () => {
  const policies = {
    keyed: { ...KEYED, key: { ...(KEYED.key as NonNullable<typeof KEYED.key>), failedFirst: 'replayed' as const } },
  }
  const world = await openWorld({ policies })
  const first = await claimOne(world)
  await world.turn({ results: [answer(first, notExecuted())] })
  world.clock.now += 2000
  const second = (await world.turn({ slots: 1 })).calls[0] as ClaimedCall
  expect(second.generation).toBe(2)
  await world.turn({ results: [answer(second, unknown())] })
  const third = (await reconcile(world, first.requestId, { kind: 'replay', reason: 'unknown' }, policies.keyed))
    .calls[0] as ClaimedCall
  await world.turn({ results: [answer(third, notExecuted())] })
  expect(await stateOf(world, first.requestId)).toMatchObject({ state: 'unknown', generation: 2 })
  await world.store.close()
})

test('a late refusal that the API remembers needs a new key, also where the replay after it never left', async () => {
  const policies = {
    keyed: { ...KEYED, key: { ...(KEYED.key as NonNullable<typeof KEYED.key>), failedFirst: 'replayed' as const } },
  }
  const world = await openWorld({ policies })
  const first = await claimOne(world)
  await world.turn({ results: [answer(first, unknown())] })
  const { calls } = await reconcile(world, first.requestId, { kind: 'replay', reason: 'unknown' }, policies.keyed)
  await world.turn({ results: [answer(first, notExecuted()), answer(calls[0] as ClaimedCall, unsent)] })
  world.clock.now += 2000
  expect((await world.turn({ slots: 1 })).calls).toMatchObject([{ attempt: 3, generation: 2 }])
  await world.store.close()
})

test('a call that never left keeps its key, also where its lease was over before that was known', async () => {
  const policies = {
    keyed: { ...KEYED, key: { ...(KEYED.key as NonNullable<typeof KEYED.key>), failedFirst: 'replayed' as const } },
  }
  const world = await openWorld({ policies })
  const first = await claimOne(world)
  world.clock.now += 20_000
  await world.turn()
  await world.turn({ results: [answer(first, unsent)] })
  world.clock.now += 2000
  expect((await world.turn({ slots: 1 })).calls).toMatchObject([{ attempt: 2, generation: 1 }])
  await world.store.close()
})

test('a refusal for credentials that the API remembers needs a new key too', async () => {
  const policies = {
    keyed: { ...KEYED, key: { ...(KEYED.key as NonNullable<typeof KEYED.key>), failedFirst: 'replayed' as const } },
  }
  const world = await openWorld({ policies })
  const first = await claimOne(world)
  await world.turn({ results: [answer(first, blocked)] })
  await world.store.resume('keyed', 'test', world.clock.now)
  expect((await world.turn({ slots: 1 })).calls).toMatchObject([{ attempt: 2, generation: 2 }])
  await world.store.close()
})

test('the high-water time rises with a turn that only settles, so that a clock set back afterwards is noticed', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  world.clock.now += 5000
  await world.turn({ results: [answer(call, unknown(), world.clock.now)] })
  expect((await world.store.facts()).highWaterAt).toBe(world.clock.now)
  await world.store.close()
})

// The server tells a store that was put back by its own history.
testOnSqlite(
  'the high-water time rises with every commit that claims, also when the clock stands still or goes back',
  async () => {
    const world = await openWorld()
    const seen = [(await world.store.facts()).highWaterAt]
    for (const step of [0, 0, -5000]) {
      world.clock.now += step
      await claimOne(world)
      seen.push((await world.store.facts()).highWaterAt)
    }
    expect(seen.every((at, i) => i === 0 || at > (seen[i - 1] ?? 0))).toBe(true)
    await world.store.close()
  },
)

test('a turn on a database that a newer version has migrated stops', async () => {
  const world = await openWorld()
  await askStore(world.path, 'UPDATE store SET schema_version = 999')
  await expect(world.turn({ slots: 1 })).rejects.toMatchObject({ code: 'STORE_SCHEMA_NEWER' })
  const pausing = world.store.pause('keyed', null, 'ada', world.clock.now)
  await expect(pausing).rejects.toMatchObject({ code: 'STORE_SCHEMA_NEWER' })
  const describing = world.store.saveDescriptions(
    [{ name: 'keyed', version: 'v1', description: '{}' }],
    world.clock.now,
  )
  await expect(describing).rejects.toMatchObject({ code: 'STORE_SCHEMA_NEWER' })
  await world.store.close()
})

test('a purge of a database that a newer version has migrated removes nothing', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, accepted('t1'), world.clock.now)] })
  await askStore(world.path, 'UPDATE store SET schema_version = 999')
  const scope = { before: world.clock.now, states: ['submitted'] as const, targets: null, abandoned: false }
  const purging = world.store.purgeAfter(0, scope, { now: world.clock.now, actor: 'ada', dryRun: false })
  await expect(purging).rejects.toMatchObject({ code: 'STORE_SCHEMA_NEWER' })
  expect(await askStore(world.path, 'SELECT request_id FROM task_state')).toHaveLength(1)
  await world.store.close()
})

test('a rate limit is charged in the claim and holds for every worker of the store', async () => {
  const rate = { count: 10, perMs: 1000, burst: 2 }
  const policies = { keyed: { ...KEYED, limits: { concurrency: null, rate } } }
  const world = await openWorld({ policies })
  for (let n = 0; n < 10; n++) await world.enqueue({ n })
  expect((await world.turn({ slots: 10 })).calls).toHaveLength(2)
  const other = await openWorld({ policies, path: world.path, worker: { name: 'other', boot: 'b2' } })
  const closed = await other.turn({ slots: 10 })
  expect(closed.calls).toHaveLength(0)
  expect(closed.nextDueAt).toBe(world.clock.now + 100)
  world.clock.now += 100
  expect((await world.turn({ slots: 10 })).calls).toHaveLength(1)
  await other.store.close()
  await world.store.close()
})

test('a concurrency limit counts the calls of every worker of the store', async () => {
  const policies = { keyed: { ...KEYED, limits: { concurrency: 3, rate: null } } }
  const world = await openWorld({ policies })
  for (let n = 0; n < 5; n++) await world.enqueue({ n })
  expect((await world.turn({ slots: 2 })).calls).toHaveLength(2)
  const other = await openWorld({ policies, path: world.path, worker: { name: 'other', boot: 'b2' } })
  expect((await other.turn({ slots: 5 })).calls).toHaveLength(1)
  await other.store.close()
  await world.store.close()
})

test('a late answer that shows that it happened is kept: no miss permits a call after it', async () => {
  const world = await openWorld()
  const call = await claimOne(world, 'lookup')
  world.clock.now += 10_001
  await world.turn()
  await world.turn({ results: [answer(call, unknown(true))] })
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'unknown', executed: true })
})

test('a late answer that shows that it happened takes a request that was sent back out of the queue', async () => {
  const world = await openWorld()
  const call = await claimOne(world, 'opaque')
  await world.turn({ results: [answer(call, unknown())] })
  const word = { now: world.clock.now, actor: 'me', note: null, ifVersion: null }
  await world.store.resolve(call.requestId, { kind: 'not_executed' }, word, { force: true, policyOf: () => OPAQUE })
  await world.turn({ results: [answer(call, unknown(true))] })
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'held', executed: true })
  expect((await world.turn({ slots: 1 })).calls).toEqual([])
})

test('without ids a late acceptance is kept too, and is what happened where the newer attempt had no effect', async () => {
  const world = await openWorld()
  const first = await claimOne(world, 'opaque')
  await world.turn({ results: [answer(first, unknown())] })
  const word = { now: world.clock.now, actor: 'me', note: null, ifVersion: null }
  await world.store.resolve(first.requestId, { kind: 'not_executed' }, word, { force: true, policyOf: () => OPAQUE })
  const second = (await world.turn({ slots: 1 })).calls[0] as ClaimedCall
  await world.turn({ results: [answer(first, { ...accepted(''), taskId: null } as never)] })
  await world.turn({ results: [answer(second, notExecuted())] })
  expect(await stateOf(world, first.requestId)).toMatchObject({ state: 'submitted', taskId: null })
})

test('a replay for a paused target is parked, keeps no drain waiting, and goes on when the target is resumed', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, unknown())] })
  await world.store.pause('keyed', null, 'me', world.clock.now)
  expect((await reconcile(world, call.requestId, { kind: 'replay', reason: 'unknown' })).calls).toEqual([])
  const horizon = world.clock.now + 3_600_000
  expect(await world.store.drainStatus(['keyed'], horizon, horizon)).toEqual({ queued: false, inDoubt: false })
  await world.store.resume('keyed', 'me', world.clock.now)
  expect(await world.store.drainStatus(['keyed'], horizon, horizon)).toEqual({ queued: false, inDoubt: true })
  expect((await world.turn({ investigations: 1 })).investigations).toHaveLength(1)
})

test('replays are charged to the limits like first calls', async () => {
  const policies = { keyed: { ...KEYED, limits: { concurrency: null, rate: { count: 1, perMs: 1000, burst: 1 } } } }
  const world = await openWorld({ policies })
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, unknown())] })
  const limited = await reconcile(world, call.requestId, { kind: 'replay', reason: 'unknown' }, policies.keyed)
  expect(limited.calls).toEqual([])
  // Nothing is written, so the same verdict can be offered again.
  expect(limited.reconciled[0]).toMatchObject({ applied: false, reason: 'limited' })
  world.clock.now += 1000
  const open = await reconcile(world, call.requestId, { kind: 'replay', reason: 'unknown' }, policies.keyed)
  expect(open.calls).toHaveLength(1)
})

test('requests that cannot be rendered end a bounded number a turn, and are told', async () => {
  const world = await openWorld()
  for (let n = 0; n < 150; n++) await world.enqueue({ n })
  const prepare = () => ({ kind: 'dead', reason: 'render_failed', note: 'no such field' }) as const
  const claim = { slots: 10, targets: [{ name: 'keyed', policy: KEYED }], prepare }
  const ended: unknown[] = []
  for (let moreReady = true; moreReady; ) {
    const turn = await world.turn({ claim })
    expect(turn.settled.length).toBeLessThanOrEqual(100)
    ended.push(...turn.settled.map(({ state, reason }) => [state, reason]))
    moreReady = turn.moreReady
  }
  expect(ended).toEqual(Array(150).fill(['dead', 'render_failed']))
})

test('a claim takes off the queue what it took and nothing else, in every lane', async () => {
  const world = await openWorld()
  const wished: readonly [string, number][] = [
    ['keyed', 0],
    ['opaque', 3],
    ['keyed', 3],
    ['keyed', 9],
    ['opaque', 1],
    ['keyed', 1],
    ['lookup', -1],
  ]
  for (const [n, [target, priority]] of wished.entries()) await world.enqueue({ n }, { target, priority })
  // The most urgent ones cannot be rendered: they leave the queue by themselves, between the ones that are called.
  const prepare = (request: Claimable) => {
    if (request.priority === 3) return { kind: 'dead', reason: 'render_failed', note: 'no such field' } as const
    const call = { method: 'POST', url: 'http://127.0.0.1/', headers: {}, body: null, account: null }
    return { kind: 'prepared', key: null, call, targetVersion: 'v1' } as const
  }
  const targets = ['keyed', 'opaque', 'lookup'].map((name) => ({ name, policy: KEYED }))
  const turn = await world.turn({ claim: { slots: 3, targets, prepare } })
  expect(turn.calls.map(({ requestId }) => requestId)).toEqual([4, 5, 6])
  expect(turn.settled.map(({ requestId, state }) => [requestId, state])).toEqual([
    [2, 'dead'],
    [3, 'dead'],
  ])
  expect(await queued(world)).toEqual([1, 7])
  await world.store.close()
})

test('what is enqueued while a claim renders stays in the queue, however urgent it is', async () => {
  const world = await openWorld()
  await world.enqueue({ n: 1 })
  await world.enqueue({ n: 2 })
  const call = { method: 'POST', url: 'http://127.0.0.1/', headers: {}, body: null, account: null }
  const enqueued: Promise<unknown>[] = []
  const prepare = ({ requestId }: Claimable) => {
    enqueued.push(world.enqueue({ by: requestId }, { priority: 9, dueAt: world.clock.now - 1000 }))
    return { kind: 'prepared', key: null, call, targetVersion: 'v1' } as const
  }
  const { calls } = await world.turn({ claim: { slots: 2, targets: [{ name: 'keyed', policy: KEYED }], prepare } })
  await Promise.all(enqueued)
  expect(calls.map(({ requestId }) => requestId)).toEqual([1, 2])
  expect(await queued(world)).toEqual([3, 4])
  await world.store.close()
})

async function queued(world: World): Promise<unknown[]> {
  const rows = await askStore(world.path, 'SELECT request_id FROM ready ORDER BY request_id')
  return rows.map((row) => row['request_id'])
}

test('a nonce is never given twice', async () => {
  const world = await openWorld()
  for (let n = 0; n < 300; n++) await world.enqueue({ n })
  const nonces = new Set<string>()
  for (let turns = 0; turns < 3; turns++) {
    for (const { nonce } of (await world.turn({ slots: 100 })).calls) nonces.add(nonce)
  }
  expect(nonces.size).toBe(300)
  for (const nonce of nonces) expect(nonce).toMatch(/^[0-9a-f]{16}$/)
  await world.store.close()
})

test('the window counts from the first attempt that may have left, and anew under a new key', async () => {
  const world = await openWorld()
  const first = await claimOne(world)
  await world.turn({ results: [answer(first, notExecuted())] })
  world.clock.now += 5000
  await world.turn({ slots: 1 })
  expect(await stateOf(world, first.requestId)).toMatchObject({ startedAt: 1_000_000 })
  const never = await claimOne(world)
  const unsent = { ...notExecuted(true), written: false } as Parameters<typeof answer>[1]
  await world.turn({ results: [answer(never, unsent)] })
  world.clock.now += 5000
  await world.turn({ slots: 1 })
  expect(await stateOf(world, never.requestId)).toMatchObject({ startedAt: world.clock.now })
})

testOnSqlite('two readers of changes in one process do not take them from each other', async () => {
  const world = await openWorld()
  const readers = [world.store.watchChanges(['keyed']), world.store.watchChanges(['opaque', 'keyed'])]
  const other = await openWorld({ path: world.path })
  await other.enqueue({ n: 1 })
  for (const read of readers) expect(await read(world.clock.now)).toMatchObject({ work: true })
  for (const read of readers) expect(await read(world.clock.now)).toBeNull()
})

test('an API that stays down writes one line a request, not one an attempt', async () => {
  const world = await openWorld()
  let call = await claimOne(world)
  const refused = {
    ...notExecuted(true),
    written: false,
    evidence: { phase: 'not_sent', error: 'ECONNREFUSED' },
  } as never
  for (let i = 0; i < 5; i++) {
    await world.turn({ results: [answer(call, refused)] })
    world.clock.now += 2000
    call = (await world.turn({ slots: 1 })).calls[0] as ClaimedCall
  }
  expect((await world.store.get(call.requestId))?.events).toHaveLength(1)
})

test('a told wait costs neither the window nor the deadline, and an opaque row waits for nothing', async () => {
  const world = await openWorld()
  const told = { ...unknown(), retryAfterMs: 30 * 86_400_000 } as Parameters<typeof answer>[1]
  const keyed = await claimOne(world)
  const opaque = await claimOne(world, 'opaque')
  await world.turn({ results: [answer(keyed, told), answer(opaque, told)] })
  const closesAt = world.clock.now + 23 * 3_600_000
  expect((await stateOf(world, keyed.requestId))?.nextCheckAt).toBeLessThan(closesAt)
  expect((await stateOf(world, opaque.requestId))?.nextCheckAt).toBe(world.clock.now)
})

test('a high-water time far ahead holds a replay no longer than the deadline', async () => {
  const world = await openWorld()
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, unknown())] })
  await askStore(world.path, 'UPDATE store SET high_water_at = high_water_at + 31536000000')
  await reconcile(world, call.requestId, { kind: 'replay', reason: 'unknown' })
  const row = await stateOf(world, call.requestId)
  expect(row).toMatchObject({ state: 'unknown', reason: 'clock_behind' })
  expect(row?.nextCheckAt).toBe(world.clock.now + 86_400_000)
  world.clock.now += 86_400_000
  await reconcile(world, call.requestId, { kind: 'replay', reason: 'unknown' })
  expect(await stateOf(world, call.requestId)).toMatchObject({ state: 'held', reason: 'deadline' })
})

test('an attempt that was refused with a key keeps the window of the first one, over any pause', async () => {
  const world = await openWorld()
  const first = await claimOne(world)
  await world.turn({ results: [answer(first, blocked)] })
  world.clock.now += 22.9 * 3_600_000
  await world.store.resume('keyed', 'me', world.clock.now)
  const second = (await world.turn({ slots: 1 })).calls[0] as ClaimedCall
  await world.turn({ results: [answer(second, unknown())] })
  world.clock.now += 3_600_000
  const { calls } = await reconcile(world, first.requestId, { kind: 'replay', reason: 'unknown' })
  expect(calls).toEqual([])
  expect(await stateOf(world, first.requestId)).toMatchObject({ state: 'held', reason: 'key_window_closed' })
})

test('what an earlier answer showed to have happened is not called again, whatever the newer attempt was refused', async () => {
  for (const refusal of [notExecuted(), rejected]) {
    const world = await openWorld()
    const first = await claimOne(world, 'lookup')
    world.clock.now += 10_001
    await world.turn()
    const missed = { kind: 'later', at: 1, reason: 'settled_miss', missCounted: true, evidence: miss } as const
    await reconcile(world, first.requestId, missed, LOOKUP)
    const recall = { kind: 'recall', reason: 'settled_miss', evidence: miss } as const
    const second = (await reconcile(world, first.requestId, recall, LOOKUP)).calls[0] as ClaimedCall
    await world.turn({ results: [answer(first, unknown(true))] })
    await world.turn({ results: [answer(second, refusal)] })
    expect(await stateOf(world, first.requestId)).toMatchObject({ state: 'unknown', executed: true })
    expect((await world.turn({ slots: 1 })).calls).toEqual([])
    await world.store.close()
  }
})

test('a row that is being canceled knows its task: a newer answer confirms it or names an orphan', async () => {
  for (const [late, orphans] of [
    [notExecuted(), 0],
    [accepted('t2'), 1],
  ] as const) {
    const world = await openWorld()
    const first = await claimOne(world)
    await world.turn({ results: [answer(first, unknown())] })
    const second = (await reconcile(world, first.requestId, { kind: 'replay', reason: 'unknown' }))
      .calls[0] as ClaimedCall
    await world.store.cancel(first.requestId, { now: world.clock.now, actor: 'me', note: null, ifVersion: null })
    await world.turn({ results: [answer(first, accepted('t1'))] })
    await world.turn({ results: [answer(second, late)] })
    expect(await stateOf(world, first.requestId)).toMatchObject({
      state: 'unknown',
      taskId: 't1',
      cancelRequested: true,
    })
    expect(await world.store.orphans(5)).toHaveLength(orphans)
    await world.store.close()
  }
})

test('misses before the attempt was over are no misses of it', async () => {
  const world = await openWorld()
  const call = await claimOne(world, 'lookup')
  world.clock.now += 10_001
  await world.turn()
  const missed = { kind: 'later', at: 1, reason: 'settled_miss', missCounted: true, evidence: miss } as const
  await reconcile(world, call.requestId, missed, LOOKUP)
  const endedAt = world.clock.now + 50
  await world.turn({ results: [answer(call, unknown(), endedAt)] })
  expect(await stateOf(world, call.requestId)).toMatchObject({
    misses: 0,
    lastMissAt: null,
    endedAt,
    isEndObserved: true,
  })
})
