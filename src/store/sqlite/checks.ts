// Rows that somebody looks into outside the transaction: doubt to be reconciled, and submitted tasks to be asked about.
// Both are leased the same way, and what is found is fenced by the row's version.
import { invariant } from '../../core/errors.ts'
import { NO_POLICY } from '../../core/policy.ts'
import { decideReconciliation, later, type Reconciliation } from '../../core/reconciliation.ts'
import type { Transition } from '../../core/settlement.ts'
import type { TaskState } from '../../core/task-state.ts'
import { decideTracking, type Tracking } from '../../core/tracking.ts'
import { replayLeftMs } from '../../core/windows.ts'
import type { ClaimedCall, Investigation, SettledRow, TrackedTask } from '../turn.ts'
import { claimUnknown } from './claim.ts'
import type { Lanes } from './lanes.ts'
import { type TaskStateRow, thaw, toTaskState } from './rows.ts'
import type { Statements } from './statements.ts'
import { applyTransition, readTaskState } from './transitions.ts'
import { descriptionOf, type Turn } from './turn-context.ts'

/** A paused target wakes its rows when it is resumed; until then they are only looked up. */
const PAUSED_CHECK_MS = 60_000

export interface Reconciled {
  readonly row: SettledRow
  readonly call: ClaimedCall | null
}

/** The sweep's verdict, checked again with the time and the row of this transaction. */
export function reconcile(turn: Turn, lanes: Lanes, reconciliation: Reconciliation): Reconciled {
  const { sql, word, input } = turn
  const { requestId, target, verdict, policy } = reconciliation
  const row = readTaskState(sql, requestId)
  if (row === null || !isAsSeen(row, 'unknown', reconciliation)) {
    return { row: fenced(row, reconciliation, verdict.kind), call: null }
  }
  const clock = { wall: word.now, latest: turn.steadyAt, highWaterAt: turn.highWaterAt }
  const decision = decideReconciliation(row, verdict, { now: word.now, policy, random: input.random, clock })
  if (decision.kind === 'transition') return { row: write(turn, row, decision, verdict.kind), call: null }
  const closed = lanes.take(target)
  // Nothing is written: the worker offers the verdict again, before anything new is claimed.
  if (closed === 'limited')
    return { row: { ...fenced(row, reconciliation, verdict.kind), reason: 'limited' }, call: null }
  if (closed === 'target_paused') {
    const wait = { at: word.now + PAUSED_CHECK_MS, reason: closed, missCounted: false, evidence: null }
    return { row: write(turn, row, later(row, wait, word.now), verdict.kind), call: null }
  }
  const writeWithinMs = decision.how === 'replay' ? replayLeftMs(row, policy, clock) : null
  const call = claimUnknown(turn, row, decision, writeWithinMs)
  const told = { requestId, target, attempt: call.attempt, outcome: verdict.kind, reason: decision.reason }
  return { row: { ...told, state: 'invoking', applied: true }, call }
}

export function track(turn: Turn, tracking: Tracking): SettledRow {
  const { sql, word, input } = turn
  const row = readTaskState(sql, tracking.requestId)
  if (row === null || !isAsSeen(row, 'submitted', tracking)) return fenced(row, tracking, tracking.status.kind)
  const policy = input.policyOf(row.target) ?? NO_POLICY
  const decision = decideTracking(row, tracking.status, { now: word.now, policy, random: input.random })
  return write(turn, row, decision, tracking.status.kind)
}

function isAsSeen(row: TaskState, state: TaskState['state'], seen: { readonly version: number }): boolean {
  return row.state === state && row.version === seen.version
}

function fenced(row: TaskState | null, seen: { requestId: number; target: string }, outcome: string): SettledRow {
  const { requestId, target } = seen
  const state = row?.state ?? 'dead'
  return { requestId, target, attempt: row?.attempt ?? 0, outcome, state, reason: 'fenced', applied: false }
}

function write(turn: Turn, row: TaskState, decision: Transition, outcome: string): SettledRow {
  const next = applyTransition(turn.sql, row, decision, turn.word)
  invariant(next !== null, `request ${row.requestId} changed inside a transaction`)
  const { requestId, target, attempt, state, reason } = next
  return { requestId, target, attempt, outcome, state, reason, applied: true }
}

export interface LeasedChecks {
  readonly investigations: readonly Investigation[]
  readonly toTrack: readonly TrackedTask[]
  /** Every slot is taken, so more may be due. */
  readonly isFull: boolean
}

/** Doubt goes first; what is left of the slots asks about submitted tasks. */
export function leaseChecks(turn: Turn): LeasedChecks {
  const { sql, input } = turn
  const { slots, targets } = input.check
  if (slots <= 0) return { investigations: [], toTrack: [], isFull: true }
  const served = JSON.stringify(targets)
  const doubtful = sql.dueUnknown.all(turn.word.now, served, slots) as TaskStateRow[]
  const tracked = sql.dueTracked.all(turn.word.now, served, slots - doubtful.length) as TaskStateRow[]
  for (const stored of [...doubtful, ...tracked]) leaseCheck(turn, stored)
  return {
    investigations: doubtful.map((stored) => toInvestigation(sql, stored)),
    toTrack: tracked.map((stored) => toTrackedTask(sql, stored)),
    isFull: doubtful.length + tracked.length >= slots,
  }
}

function leaseCheck({ sql, input, word, owner }: Turn, stored: TaskStateRow): void {
  const until = word.now + input.leaseMs
  sql.leaseCheck.run(owner, until, until, stored.request_id, stored.state, stored.version)
}

export function toInvestigation(sql: Statements, stored: TaskStateRow): Investigation {
  const payload = (sql.payload.get(stored.request_id) as string | undefined) ?? 'null'
  const prepared = stored.frozen === null ? null : thaw(stored.frozen, payload)
  return { ...toTrackedTask(sql, stored), payload, prepared }
}

function toTrackedTask(sql: Statements, stored: TaskStateRow): TrackedTask {
  return { row: toTaskState(stored), description: descriptionOf(sql, stored.target, stored.target_version) }
}

/** When a row is to be looked into next. `served` is a JSON list of targets. */
export function nextCheckAt(sql: Statements, served: string): number | null {
  return earliest(sql.nextUnknownAt.get(served), sql.nextTrackedAt.get(served))
}

/** When a request comes due or a lease ends next. */
export function nextDueAt(sql: Statements): number | null {
  return earliest(sql.nextWaitingAt.get(), sql.nextLeaseEnd.get())
}

export function earliest(...instants: unknown[]): number | null {
  const known = instants.filter((at) => typeof at === 'number')
  return known.length === 0 ? null : Math.min(...known)
}
