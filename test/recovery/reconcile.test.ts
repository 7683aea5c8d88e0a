import { expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import type { LookupResult } from '../../src/core/outcome.ts'
import type { TargetPolicy } from '../../src/core/policy.ts'
import type { TaskState } from '../../src/core/task-state.ts'
import { createReconciler } from '../../src/recovery/reconcile.ts'
import { createSettleWatch } from '../../src/recovery/settle-watch.ts'
import type { Target } from '../../src/target/target.ts'
import { KEYED, LOOKUP, OPAQUE } from '../support/store.ts'

const BOTH: TargetPolicy = { ...KEYED, recovery: ['lookup', 'replay', 'hold'], lookup: LOOKUP.lookup }
const evidence = { phase: 'answered', status: 200 } as const
const MISS: LookupResult = { kind: 'miss', evidence }

const ROW: TaskState = {
  requestId: 1, state: 'unknown', target: 't', targetVersion: 'v', logicalHash: 'h', priority: 0, taskId: null, version: 3,
  attempt: 1, nonce: 'n', generation: 1, idempotencyKey: 'k', attempts: 1, replays: 0, backoffStep: 1, doubtfulAttempts: [],
  executed: false, cancelRequested: false, abandoned: false, leaseOwner: null, leaseUntil: null, startedAt: 0, endedAt: 0, isEndObserved: true,
  unknownSince: 0, nextCheckAt: 0, misses: 0, lastMissAt: null, olderAnswer: null, reason: 'unknown', evidence: null,
  createdAt: 0, updatedAt: 0,
  expiresAt: null,
} // biome-ignore format: a row

function world(
  policy: TargetPolicy,
  answers: LookupResult[] = [],
  options: { sameOrigin?: boolean; found?: boolean; highWaterAt?: number } = {},
) {
  const clock = { wall: 0, mono: 0 }
  let asked = 0
  const target = {
    name: 't',
    version: 'v',
    policy,
    lookup: async () => answers[Math.min(asked++, answers.length - 1)],
    cancel: async () => ({ kind: 'canceled', evidence }),
    sameOrigin: () => options.sameOrigin ?? true,
  } as unknown as Target
  const registry = {
    targets: [target],
    get: () => target,
    at: () => (options.found === false ? undefined : target),
    close: async () => {},
  }
  const ours = { ...systemClock, wallNow: () => clock.wall, monotonicNow: () => clock.mono }
  const reconcile = createReconciler({
    registry,
    clock: ours,
    watch: createSettleWatch(ours),
    windowClock: async () => ({ wall: clock.wall, latest: clock.wall, highWaterAt: options.highWaterAt ?? 0 }),
    leaseMs: 10_000,
    random: () => 0,
  })
  const prepared = {
    method: 'POST',
    url: 'http://127.0.0.1/',
    headers: {},
    body: null,
    account: null,
  }
  return {
    pass: (ms: number) => {
      clock.wall += ms
      clock.mono += ms
    },
    clock,
    asked: () => asked,
    look: async (row: Partial<TaskState> = {}) =>
      (await reconcile({ row: { ...ROW, ...row }, payload: '{}', prepared, description: null })).verdict,
  }
}

test('an opaque row is held, and so is one that nobody describes any more', async () => {
  expect(await world(OPAQUE).look()).toMatchObject({ kind: 'hold', reason: 'opaque' })
  expect(await world(KEYED, [], { found: false }).look()).toMatchObject({ kind: 'hold', reason: 'description_missing' })
})

test('a keyed row is replayed inside the window less its margin, and held after it', async () => {
  const { look, pass } = world(KEYED)
  pass(22 * 3_600_000)
  expect(await look()).toMatchObject({ kind: 'replay' })
  pass(1.5 * 3_600_000)
  expect(await look()).toMatchObject({ kind: 'hold', reason: 'key_window_closed' })
})

test('a description whose calls outlast the leases of today is not replayed, since it could never be written', async () => {
  expect(await world({ ...KEYED, timeoutMs: 10_001 }).look()).toMatchObject({
    kind: 'hold',
    reason: 'lease_shorter_than_call',
  })
})

test('what the lookup finds is adopted', async () => {
  const { look } = world(LOOKUP, [{ kind: 'found', taskId: 'a', evidence }])
  expect(await look()).toMatchObject({ kind: 'adopt', taskId: 'a' })
})

test('several tasks, or another than a late answer named, are a person’s to judge', async () => {
  const several = world(LOOKUP, [{ kind: 'ambiguous', taskIds: ['a', 'b'], evidence }])
  expect(await several.look()).toMatchObject({ kind: 'hold', reason: 'several_tasks' })
  const other = world(LOOKUP, [{ kind: 'found', taskId: 'a', evidence }])
  expect(await other.look({ olderAnswer: { attempt: 1, taskId: 'b', evidence } })).toMatchObject({
    kind: 'hold',
    reason: 'several_tasks',
  })
})

test('a miss counts only after the settle time has been watched, and a restart watches anew', async () => {
  const first = world(LOOKUP, [MISS])
  first.pass(1_000_000)
  expect(await first.look()).toMatchObject({ kind: 'later', reason: 'miss_not_settled', missCounted: false })
  first.pass(4999)
  expect(await first.look()).toMatchObject({ kind: 'later', reason: 'miss_not_settled', missCounted: false })
  first.pass(1)
  expect(await first.look()).toMatchObject({ kind: 'later', reason: 'settled_miss', missCounted: true })
  const restarted = world(LOOKUP, [MISS])
  restarted.pass(1_000_000)
  expect(await restarted.look({ misses: 1 })).toMatchObject({ kind: 'later', reason: 'miss_not_settled' })
})

test('a monotonic clock between two milliseconds makes no instant that the store refuses, which ended the worker', async () => {
  const { look, clock } = world(LOOKUP, [MISS])
  await look()
  clock.wall = 4999
  clock.mono = 4998.6
  const verdict = await look()
  expect(verdict).toMatchObject({ kind: 'later', reason: 'miss_not_settled', at: expect.any(Number) })
  expect(Number.isInteger((verdict as { at: number }).at)).toBe(true)
})

test('a clock that jumps forward settles nothing', async () => {
  const { look, clock } = world(LOOKUP, [MISS])
  await look()
  clock.wall += 3_600_000
  expect(await look()).toMatchObject({ reason: 'miss_not_settled' })
})

test('where only the lease’s end is known, the call may still run: its whole deadline is watched too', async () => {
  const { look, pass } = world(LOOKUP, [MISS])
  await look({ isEndObserved: false })
  pass(5999)
  expect(await look({ isEndObserved: false })).toMatchObject({ reason: 'miss_not_settled' })
  pass(1)
  expect(await look({ isEndObserved: false })).toMatchObject({ reason: 'settled_miss' })
})

test('a new attempt end is watched anew', async () => {
  const { look, pass } = world(LOOKUP, [MISS])
  await look()
  pass(6000)
  expect(await look({ endedAt: 5000 })).toMatchObject({ reason: 'miss_not_settled' })
})

test('settled misses are spaced, and as many as asked permit a new call', async () => {
  const { look, pass } = world(LOOKUP, [MISS])
  await look()
  pass(6000)
  expect(await look({ misses: 1, lastMissAt: 5500 })).toMatchObject({
    kind: 'later',
    reason: 'miss_too_soon',
    at: 6500,
  })
  pass(1000)
  expect(await look({ misses: 1, lastMissAt: 5500 })).toMatchObject({ kind: 'recall' })
})

test.each([
  ['it was executed', LOOKUP, { executed: true }, 'executed_without_id'],
  [
    'misses mean nothing here',
    { ...LOOKUP, lookup: { ...(LOOKUP.lookup as never as object), missMeans: 'hold' } } as TargetPolicy,
    {},
    'miss_means_hold',
  ],
  [
    'the lookup may have forgotten it',
    { ...LOOKUP, lookup: { ...(LOOKUP.lookup as never as object), remembersMs: 7000 } } as TargetPolicy,
    {},
    'lookup_memory_over',
  ],
])('a settled miss permits no call where %s', async (_why, policy, row, reason) => {
  const { look, pass } = world(policy, [MISS])
  await look()
  pass(10_000)
  expect(await look({ ...row, misses: 1, lastMissAt: 6000 })).toMatchObject({ kind: 'hold', reason })
})

test('another account or origin makes a miss worthless and leaves replay to a person', async () => {
  const gone = world(LOOKUP, [MISS], { sameOrigin: false })
  await gone.look()
  gone.pass(100_000)
  expect(await gone.look({ misses: 1 })).toMatchObject({ kind: 'later', reason: 'account_changed', missCounted: false })
  expect(await world(KEYED, [], { sameOrigin: false }).look()).toMatchObject({
    kind: 'hold',
    reason: 'account_changed',
  })
})

test('a lookup that proves nothing is asked again, and yields to a replay before the window closes', async () => {
  const silent: LookupResult = { kind: 'undetermined', retryAfterMs: null, evidence }
  const { look, pass } = world(BOTH, [silent])
  expect(await look()).toMatchObject({ kind: 'later', reason: 'lookup_undetermined' })
  expect(await look({ backoffStep: 3 })).toMatchObject({ kind: 'replay' })
  pass(23 * 3_600_000 - 500)
  expect(await look()).toMatchObject({ kind: 'replay' })
  const onlyLookup = world(LOOKUP, [silent])
  expect(await onlyLookup.look({ backoffStep: 9 })).toMatchObject({ kind: 'later' })
  onlyLookup.pass(24 * 3_600_000)
  expect(await onlyLookup.look({ backoffStep: 9 })).toMatchObject({ kind: 'hold', reason: 'deadline' })
})

test('a canceled row is never called again: its task is canceled at the API, or proven absent, or held', async () => {
  expect(await world(KEYED).look({ cancelRequested: true })).toMatchObject({ kind: 'hold', reason: 'cancel_unproven' })
  const known = world({ ...LOOKUP, canCancel: true }, [MISS])
  expect(await known.look({ cancelRequested: true, taskId: 'a' })).toMatchObject({
    kind: 'canceled',
    reason: 'canceled_at_api',
  })
  const absent = world(LOOKUP, [MISS])
  await absent.look()
  absent.pass(9000)
  expect(await absent.look({ cancelRequested: true, misses: 1, lastMissAt: 6000 })).toMatchObject({
    kind: 'canceled',
    reason: 'settled_miss',
  })
})

test('a find without the key may be an earlier generation’s task', async () => {
  const blind = { ...LOOKUP, lookup: { ...(LOOKUP.lookup as never as object), dependsOnKey: false } } as TargetPolicy
  const { look } = world(blind, [{ kind: 'found', taskId: 'a', evidence }])
  expect(await look({ generation: 2 })).toMatchObject({ kind: 'hold', reason: 'found_other_generation' })
})

test('a clock that is behind what the store has seen proves nothing about the lookup’s memory: the last miss waits for it', async () => {
  const once = { ...LOOKUP, lookup: { ...(LOOKUP.lookup as NonNullable<TargetPolicy['lookup']>), misses: 1 } }
  const { look, clock } = world(once, [MISS], { highWaterAt: 90_000_000 })
  await look()
  clock.wall = clock.mono = 20_000
  expect(await look()).toMatchObject({ kind: 'later', reason: 'clock_behind', at: 86_400_000 })
  clock.wall = clock.mono = 90_000_000
  expect(await look()).toMatchObject({ kind: 'hold' })
})
