// Rows that somebody looks into outside the transaction: doubt to be reconciled, and submitted tasks to be asked about.
// Both are leased the same way, and what is found is fenced by the row's version.
import { spreadMs } from '../../core/backoff.ts'
import { invariant } from '../../core/errors.ts'
import { NO_POLICY, type TargetPolicy } from '../../core/policy.ts'
import {
  decideReconciliation,
  later,
  type Reconciliation,
  type ReconciliationVerdict,
} from '../../core/reconciliation.ts'
import { tracked } from '../../core/settlement.ts'
import type { TaskState } from '../../core/task-state.ts'
import { decideTracking, type Tracking } from '../../core/tracking.ts'
import type { Transition } from '../../core/transition.ts'
import { doubtEndsAt, replayLeftMs } from '../../core/windows.ts'
import { PASSED_OVER_A_TURN } from '../bounds.ts'
import type { ClaimedCall, Investigation, SettledRow, TrackedTask } from '../turn.ts'
import { claimUnknown, leftMs } from './claim.ts'
import { nextCheckAt } from './due.ts'
import type { Closed, Lanes } from './lanes.ts'
import { waitsForTurn } from './ordering.ts'
import { type TaskStateRow, thaw, toTaskState } from './rows.ts'
import type { Statements } from './statements.ts'
import { applyTransition, askedSoFar, deleteRequest, readTaskState } from './transitions.ts'
import { descriptionOf, type Turn } from './turn-context.ts'

/** A paused target wakes its rows when it is resumed, and a turn whose it is; until then they are only looked up. */
const CLOSED_CHECK_MS = 60_000
const NOT_ITS_TURN = { why: 'ordering', until: null } as const

export interface Reconciled {
  readonly row: SettledRow
  readonly call: ClaimedCall | null
}

/** The sweep's verdict, checked again with the time and the row of this transaction. */
export function reconcile(turn: Turn, lanes: Lanes, reconciliation: Reconciliation): Reconciled {
  const { sql, word, input } = turn
  const { requestId, target, verdict, policy } = reconciliation
  const adopted = verdict.kind === 'adopt' ? adoptPlainly(turn, reconciliation, verdict) : null
  if (adopted !== null) return { row: adopted, call: null }
  const row = readTaskState(sql, requestId)
  if (row === null || !isAsSeen(row, 'unknown', reconciliation)) {
    return { row: fenced(row, reconciliation, verdict.kind), call: null }
  }
  const clock = { wall: word.now, latest: turn.steadyAt, highWaterAt: turn.highWaterAt }
  const decision = decideReconciliation(row, verdict, { now: word.now, policy, random: input.random, clock })
  if (decision.kind === 'transition') return { row: write(turn, row, decision, verdict.kind), call: null }
  const closed = waitsForTurn(sql, requestId) ? NOT_ITS_TURN : lanes.take(target, requestId)
  // Nothing is written: the worker offers the verdict again, before anything new is claimed.
  if (closed?.why === 'limited')
    return { row: { ...fenced(row, reconciliation, verdict.kind), reason: 'limited' }, call: null }
  if (closed !== null) {
    const wait = { at: closedUntil(turn, row, policy, closed), reason: closed.why, missCounted: false, evidence: null }
    return { row: write(turn, row, later(row, wait, word.now), verdict.kind), call: null }
  }
  const writeWithinMs = decision.how === 'replay' ? replayLeftMs(row, policy, clock) : leftMs(row.expiresAt, word.now)
  const call = claimUnknown(turn, row, decision, writeWithinMs)
  const told = { requestId, target, attempt: call.attempt, outcome: verdict.kind, reason: decision.reason }
  return { row: { ...told, state: 'invoking', applied: true }, call }
}

/** Where it can be looked up, that goes on meanwhile; the deadline holds in a pause too. */
function closedUntil(
  { word, input }: Turn,
  row: TaskState,
  policy: TargetPolicy,
  { until }: Pick<Closed, 'until'>,
): number {
  const soon = word.now + CLOSED_CHECK_MS
  if (until === null) return soon
  const at = word.now + spreadMs(until - word.now, input.random())
  return Math.min(at, policy.lookup === null ? at : soon, doubtEndsAt(row, policy, word.now))
}

/**
 * What `settleOn` does to a row of which nothing else is known, without reading and rewriting its 33 columns: a sweep is mostly
 * this. Null: it goes the long way.
 */
function adoptPlainly(
  turn: Turn,
  { requestId, target, version, policy }: Reconciliation,
  { taskId, evidence }: ReconciliationVerdict & { kind: 'adopt' },
): SettledRow | null {
  const { sql, word } = turn
  const known = sql.plainDoubt.get(requestId, version) as PlainDoubt | undefined
  if (known === undefined) return null
  const { attempt, backoff_step: backoffStep, updated_at: updatedAt, reason } = known
  const nextCheckAt = tracked(policy, word.now).nextCheckAt ?? null
  const kept = JSON.stringify(evidence)
  const { changes } = sql.adoptIfUnknown.run(taskId, word.now, nextCheckAt, kept, word.now, requestId, version)
  invariant(changes === 1, `request ${requestId} changed inside a transaction`)
  if (policy.keepPayloadMs !== null) sql.keepPayload.run(word.now, requestId)
  deleteRequest(sql, requestId, word.now)
  sql.deleteOrphanOf.run(requestId, taskId)
  const detail = JSON.stringify({ taskId, evidence, asked: askedSoFar({ backoffStep, updatedAt, reason }) })
  sql.insertEvent.run(
    requestId, target, word.now, 'submitted', 'unknown', 'submitted', attempt, word.actor, 'lookup', detail,
  ) // biome-ignore format: the order is the statement's
  return { requestId, target, attempt, outcome: 'adopt', state: 'submitted', reason: null, applied: true }
}

type PlainDoubt = Pick<TaskStateRow, 'attempt' | 'backoff_step' | 'updated_at' | 'reason'>

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
  const { requestId, target, attempt, state, reason } = next
  return { requestId, target, attempt, outcome, state, reason, applied: true }
}

export interface LeasedChecks {
  readonly investigations: readonly Investigation[]
  readonly toTrack: readonly TrackedTask[]
  /** When there is a reason to ask about rows without being told; null: never, or once a question has come to its end. */
  readonly nextCheckAt: number | null
}

const PASSED_OVER_MS = 250

/** Doubt goes first; what is left of the slots asks about submitted tasks. */
export function leaseChecks(turn: Turn): LeasedChecks {
  const { sql, input, word } = turn
  const room = new Map(input.check.room)
  const served = JSON.stringify(input.claim.targets.map(({ name }) => name))
  const doubtful = dueRows(turn, sql.dueUnknown, served, input.check.slots, room)
  const submitted = dueRows(turn, sql.dueTracked, served, input.check.slots - doubtful.rows.length, room)
  for (const stored of [...doubtful.rows, ...submitted.rows]) leaseCheck(turn, stored)
  const passedOver = doubtful.passedOver || submitted.passedOver
  const isFull = doubtful.rows.length + submitted.rows.length >= input.check.slots
  const toTracked = trackedTasksOf(sql)
  return {
    investigations: doubtful.rows.map((stored) => withCall(sql, stored, toTracked(stored))),
    toTrack: submitted.rows.map(toTracked),
    // With no slot left to ask about rows, these are no reason to wake: the end of a lookup is.
    nextCheckAt: isFull ? null : passedOver ? word.now + PASSED_OVER_MS : nextCheckAt(sql, served),
  }
}

interface DueRows {
  readonly rows: readonly TaskStateRow[]
  /** Others are due whose target bears no more for now. */
  readonly passedOver: boolean
}

/** In their order, at most `slots`, and of each target no more than its `room`, which is taken. */
function dueRows(
  { input, word }: Turn,
  due: Statements['dueUnknown'],
  served: string,
  slots: number,
  room: Map<string, number>,
): DueRows {
  if (slots <= 0) return { rows: [], passedOver: false }
  if (input.claim.targets.every(({ name }) => room.get(name) === 0)) return { rows: [], passedOver: true }
  if (room.size === 0) return { rows: due.all(word.now, served, slots) as TaskStateRow[], passedOver: false }
  const rows: TaskStateRow[] = []
  let passedOver = false
  for (const stored of due.iterate(word.now, served, slots + PASSED_OVER_A_TURN) as Iterable<TaskStateRow>) {
    if (rows.length === slots) break
    const left = room.get(stored.target) ?? slots
    if (left > 0) rows.push(stored)
    else passedOver = true
    if (room.has(stored.target)) room.set(stored.target, Math.max(0, left - 1))
  }
  return { rows, passedOver }
}

function leaseCheck({ sql, input, word, owner }: Turn, stored: TaskStateRow): void {
  const until = word.now + input.leaseMs
  sql.leaseCheck.run(owner, until, until, stored.request_id, stored.state, stored.version)
}

export function toInvestigation(sql: Statements, stored: TaskStateRow): Investigation {
  return withCall(sql, stored, trackedTasksOf(sql)(stored))
}

function withCall(sql: Statements, stored: TaskStateRow, task: TrackedTask): Investigation {
  const payload = (sql.payload.get(stored.request_id) as string | undefined) ?? 'null'
  const prepared = stored.frozen === null ? null : thaw(stored.frozen, payload)
  return { ...task, payload, prepared }
}

/** Most rows share their description, which is long: it is read once. */
function trackedTasksOf(sql: Statements): (stored: TaskStateRow) => TrackedTask {
  const known = new Map<string, string | null>()
  return (stored) => {
    const { target, target_version: version } = stored
    const key = `${target}:${version}`
    const description = known.get(key) ?? descriptionOf(sql, target, version)
    known.set(key, description)
    return { row: toTaskState(stored), description }
  }
}
