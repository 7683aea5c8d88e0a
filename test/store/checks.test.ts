// What a turn does with rows in doubt: their leases' end, who may look into them, and the task that is found.
import { expect, test } from 'vitest'
import { decideReconciliation, type Reconciliation } from '../../src/core/reconciliation.ts'
import type { TaskState } from '../../src/core/task-state.ts'
import { LOOKUP, openWorld, type World } from '../support/store.ts'

const TRACKED = { ...LOOKUP, tracking: { everyMs: 500, deadlineMs: 60_000 }, keepPayloadMs: 1000 }
const evidence = { phase: 'answered', status: 200, body: '{"id":"t-1"}', rule: 'lookup' } as const

/** Claims `count` requests, whose leases then run out. */
async function doubt(world: World, count: number, target: string): Promise<void> {
  for (let n = 0; n < count; n++) await world.enqueue({ n, target }, { target })
  await world.turn({ slots: count })
  world.clock.now += 10_001
  await world.turn()
}

const rowOf = async (world: World, requestId: number) =>
  (await world.store.get(requestId))?.taskState as unknown as TaskState

const eventsOf = async (world: World, requestId: number) => (await world.store.get(requestId))?.events ?? []

test('every lease that ran out is told in an event of its own, with the call that it ended', async () => {
  const world = await openWorld()
  const claimedAt = world.clock.now
  await doubt(world, 3, 'keyed')
  for (const requestId of [1, 2, 3]) {
    const row = await rowOf(world, requestId)
    expect(row).toMatchObject({
      state: 'unknown',
      version: 2,
      leaseOwner: null,
      leaseUntil: null,
      isEndObserved: false,
    })
    const at = world.clock.now
    expect(row).toMatchObject({ endedAt: claimedAt + 10_000, unknownSince: at, nextCheckAt: at, updatedAt: at })
    const call = {
      claimedAt,
      key: `key-${requestId}-1`,
      fingerprint: expect.stringMatching(/^[0-9a-f]{64}$/),
      leaseOwner: 'w:b1',
    }
    expect(await eventsOf(world, requestId)).toMatchObject([
      {
        at,
        kind: 'unknown',
        from: 'invoking',
        to: 'unknown',
        reason: 'lease_expired',
        attempt: 1,
        actor: 'worker:w',
        detail: { leaseOwner: 'w:b1', leaseUntil: claimedAt + 10_000, call, round: 0 },
      },
    ])
  }
  await world.store.close()
})

test('more leases than one turn moves are moved by the next', async () => {
  const world = await openWorld()
  for (let n = 0; n < 201; n++) await world.enqueue({ n })
  await world.turn({ slots: 201 })
  world.clock.now += 10_001
  expect((await world.turn()).more).toBe(true)
  expect((await world.store.status()).states).toEqual({ invoking: 1, unknown: 200 })
  expect((await world.turn()).more).toBe(false)
  expect((await world.store.status()).states).toEqual({ unknown: 201 })
  await world.store.close()
})

test('a found task is adopted as the rules say, by narrow statements as by the long way', async () => {
  const world = await openWorld({ policies: { tracked: TRACKED } })
  await doubt(world, 1, 'tracked')
  const before = await rowOf(world, 1)
  world.clock.now += 100
  const now = world.clock.now
  const verdict = { kind: 'adopt', taskId: 't-1', evidence } as const
  const found: Reconciliation = { requestId: 1, target: 'tracked', version: before.version, policy: TRACKED, verdict }
  const { reconciled } = await world.turn({ reconciliations: [found] })
  const told = { requestId: 1, target: 'tracked', attempt: 1, outcome: 'adopt' }
  expect(reconciled).toEqual([{ ...told, state: 'submitted', reason: null, applied: true }])

  const clock = { wall: now, latest: now, highWaterAt: now }
  const decision = decideReconciliation(before, verdict, { now, policy: TRACKED, random: () => 0, clock })
  const patch = decision.kind === 'transition' ? decision.patch : {}
  const versioned = { state: 'submitted', version: before.version + 1, updatedAt: now }
  expect(await rowOf(world, 1)).toEqual({ ...before, ...patch, ...versioned })
  const asked = { round: before.backoffStep, lastAt: before.updatedAt, reason: before.reason }
  const detail = { taskId: 't-1', evidence, asked }
  expect((await eventsOf(world, 1)).at(-1)).toMatchObject({
    kind: 'submitted',
    from: 'unknown',
    to: 'submitted',
    reason: 'lookup',
    attempt: 1,
    detail,
  })
  expect(await world.store.get(1)).toMatchObject({ payload: { n: 0, target: 'tracked' } })
  await world.store.close()
})

test('what is found of a row that has moved on changes nothing', async () => {
  const world = await openWorld()
  await doubt(world, 1, 'lookup')
  const verdict = { kind: 'adopt', taskId: 't-1', evidence } as const
  const stale: Reconciliation = { requestId: 1, target: 'lookup', version: 1, policy: LOOKUP, verdict }
  const { reconciled } = await world.turn({ reconciliations: [stale] })
  expect(reconciled).toMatchObject([{ applied: false, reason: 'fenced', state: 'unknown' }])
  expect(await rowOf(world, 1)).toMatchObject({ state: 'unknown', taskId: null })
  await world.store.close()
})

test('a row that is being canceled is no plain doubt: its found task goes on to be canceled', async () => {
  const world = await openWorld()
  await doubt(world, 1, 'lookup')
  await world.store.cancel(1, { now: world.clock.now, actor: 'me', note: null, ifVersion: null })
  const { version } = await rowOf(world, 1)
  const verdict = { kind: 'adopt', taskId: 't-1', evidence } as const
  const found: Reconciliation = { requestId: 1, target: 'lookup', version, policy: LOOKUP, verdict }
  await world.turn({ reconciliations: [found] })
  expect(await rowOf(world, 1)).toMatchObject({ state: 'unknown', taskId: 't-1', reason: 'cancel_requested' })
  await world.store.close()
})

test('rows of a target that bears no more questions are passed over for those of others, and soon looked for again', async () => {
  const world = await openWorld({ policies: { limited: LOOKUP, lookup: LOOKUP } })
  await doubt(world, 3, 'lookup')
  await doubt(world, 3, 'limited')
  // The limited target's rows are the older ones.
  world.clock.now++
  for (const requestId of [1, 2, 3]) {
    const { version } = await rowOf(world, requestId)
    const verdict = { kind: 'later', at: world.clock.now, reason: 'x', missCounted: false, evidence: null } as const
    await world.turn({ reconciliations: [{ requestId, target: 'lookup', version, policy: LOOKUP, verdict }] })
  }
  const first = await world.turn({ investigations: 3, room: new Map([['limited', 1]]) })
  expect(first.investigations.map(({ row }) => row.target)).toEqual(['limited', 'lookup', 'lookup'])
  const second = await world.turn({ investigations: 3, room: new Map([['limited', 0]]) })
  expect(second.investigations.map(({ row }) => row.target)).toEqual(['lookup'])
  expect(second.nextDueAt).toBe(world.clock.now + 250)
  const third = await world.turn({ investigations: 3 })
  expect(third.investigations.map(({ row }) => row.target)).toEqual(['limited', 'limited'])
  await world.store.close()
})
