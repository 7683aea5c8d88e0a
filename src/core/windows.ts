// When time permits a second call, and when a miss counts. Pure: the sweep plans with these, and the store asks them
// again inside the transaction that writes.
import type { SteadyTime, ToldTime } from './clock.ts'
import { invariant } from './errors.ts'
import type { KeyPolicy, TargetPolicy } from './policy.ts'
import type { TaskState } from './task-state.ts'

export interface WindowClock {
  readonly wall: number
  /** Steady time (`clock.ts`): what was set back since somebody of this store saw it does not count. */
  readonly latest: number
  /** The largest steady time that a commit has written. */
  readonly highWaterAt: number
}

/** @param told what the store says of its time. */
export function windowClockOf(wall: number, steady: SteadyTime, told: ToldTime): WindowClock {
  steady.hear(told)
  return { wall, latest: steady.now(), highWaterAt: told.highWaterAt }
}

export type ReplayWindow =
  | { readonly kind: 'open' }
  /** The clock was set back while nobody saw it, behind the high-water time: it proves nothing yet. `until`: by the wall. */
  | { readonly kind: 'wait'; readonly until: number }
  | { readonly kind: 'closed' }
  /** No key, or an unknown memory. */
  | { readonly kind: 'unavailable' }

// High-water time rises by at least 1 ms a commit, so a busy store may run a little ahead of the wall.
const CLOCK_TOLERANCE_MS = 1000

/** Whether the API surely still knows the key (or the client-chosen id) by the time a replay can arrive. */
export function replayWindow(row: TaskState, policy: TargetPolicy, clock: WindowClock): ReplayWindow {
  const key = policy.key
  if (key === null || key.rememberedForMs === null || row.idempotencyKey === null) return { kind: 'unavailable' }
  if (key.rememberedForMs === 'forever') return { kind: 'open' }
  const until = clockKnownAt(clock)
  if (until !== null) return { kind: 'wait', until }
  return ageOf(row, clock) + slackMs(key, policy) <= key.rememberedForMs ? { kind: 'open' } : { kind: 'closed' }
}

/** When a clock that was set back unseen has caught up, by the wall: until then no age is known. Null: it is not behind. */
export function clockKnownAt({ wall, latest, highWaterAt }: WindowClock): number | null {
  const behindMs = highWaterAt - Math.max(wall, latest)
  return behindMs > CLOCK_TOLERANCE_MS ? wall + behindMs : null
}

/**
 * How long after its claim a replay's bytes may still leave and surely arrive while the key is remembered; null: it does not
 * matter. A process that is stopped between its claim and the write must not send them later.
 */
export function replayLeftMs(row: TaskState, policy: TargetPolicy, clock: WindowClock): number | null {
  const key = policy.key
  if (key === null || typeof key.rememberedForMs !== 'number') return null
  return key.rememberedForMs - key.arrivalMs - ageOf(row, clock)
}

/** What must be left of the window for a replay that starts now to arrive inside it. */
function slackMs(key: KeyPolicy, policy: TargetPolicy): number {
  return Math.max(key.marginMs, policy.timeoutMs + key.arrivalMs)
}

/** Age of the generation's first attempt that may have left, by the latest of the clocks. */
function ageOf(row: TaskState, clock: WindowClock): number {
  invariant(row.startedAt !== null, `request ${row.requestId} is in doubt and has no first attempt`)
  return Math.max(clock.wall, clock.latest, clock.highWaterAt) - row.startedAt
}

/** When the window closes by the wall clock, or null where it never does or was never open. */
export function windowClosesAt(row: TaskState, policy: TargetPolicy): number | null {
  const key = policy.key
  if (key === null || typeof key.rememberedForMs !== 'number' || row.startedAt === null) return null
  return row.startedAt + key.rememberedForMs - slackMs(key, policy)
}

/** Inside the time for which the API's lookup shows a submission; later a miss may only mean "forgotten". */
function isInsideLookupMemory(row: TaskState, policy: TargetPolicy, clock: WindowClock): boolean {
  const remembers = policy.lookup?.remembersMs
  if (remembers === undefined || remembers === null) return false
  return remembers === 'forever' || ageOf(row, clock) + policy.timeoutMs <= remembers
}

/** Whether settled misses permit a new call. What each of them is worth was checked as it was counted. */
export function mayRecall(row: TaskState, policy: TargetPolicy, clock: WindowClock, misses: number): boolean {
  return !row.cancelRequested && missesProveAbsence(row, policy, clock, misses)
}

export function missesProveAbsence(row: TaskState, policy: TargetPolicy, clock: WindowClock, misses: number): boolean {
  const lookup = policy.lookup
  return (
    lookup !== null &&
    lookup.missMeans === 'absent' &&
    !row.executed &&
    row.olderAnswer === null &&
    misses >= lookup.misses &&
    isInsideLookupMemory(row, policy, clock)
  )
}

/** When doubt is held for a person, whatever was found. @param now since when it is in doubt, where it is not yet. */
export function doubtEndsAt(
  { unknownSince }: Pick<TaskState, 'unknownSince'>,
  policy: TargetPolicy,
  now: number,
): number {
  return (unknownSince ?? now) + policy.deadlineMs
}

export function isPastDeadline(row: TaskState, policy: TargetPolicy, now: number): boolean {
  return now >= doubtEndsAt(row, policy, now)
}

const UNKNOWN_ARRIVAL_MS = 30_000

/** How long after an attempt's end its bytes may still be on their way. */
export function quietMs(policy: TargetPolicy): number {
  return policy.lookup?.settleMs ?? policy.key?.arrivalMs ?? UNKNOWN_ARRIVAL_MS
}
