// The turn: everything that one worker has to write now, in one transaction, whatever its concurrency.
// Order matters: answers first (they free what others wait for), then leases, then what is due, then new work.
import { invariant } from '../../core/errors.ts'
import type { Evidence } from '../../core/outcome.ts'
import { NO_POLICY } from '../../core/policy.ts'
import { decideReconciliation, later, type Reconciliation } from '../../core/reconciliation.ts'
import { type AttemptResult, decideSettlement, tracked, transition } from '../../core/settlement.ts'
import { decideTracking, type Tracking } from '../../core/tracking.ts'
import type { SettledRow, TrackedTask, TurnInput, TurnResult } from '../store.ts'
import { claimReady, claimUnknown } from './claim.ts'
import { type TaskStateRow, thaw, toTaskState } from './rows.ts'
import type { Statements } from './statements.ts'
import { applyTransition, deleteRequest, noteOrphan, readTaskState, type Word } from './transitions.ts'

/** Bounds on what one turn promotes and expires, so that it never holds the loop or the lock for long. */
const PROMOTE_A_TURN = 200
const EXPIRE_A_TURN = 200

/** Gives each settlement a savepoint of its own; the plain path has none, since it is a third faster. */
export type Guard = <T>(work: () => T) => T

type Writing = Omit<Turn, 'paused'>

export interface Turn {
  readonly sql: Statements
  readonly input: TurnInput
  readonly word: Word
  readonly owner: string
  readonly highWaterAt: number
  readonly paused: ReadonlySet<string>
}

export function runTurn(sql: Statements, input: TurnInput, guard: Guard | null): TurnResult {
  const writing: Writing = {
    sql,
    input,
    word: { now: input.now(), actor: `worker:${input.worker.name}` },
    owner: ownerOf(input.worker),
    highWaterAt: (sql.facts.get() as { high_water_at: number }).high_water_at,
  }
  const settled = input.results.map((result) => settle(writing, result, guard))
  const lost = input.renewals.filter((call) => !renew(writing, call))
  const expired = expireLeases(writing)
  const promoted = promote(writing)
  // Read after the settlements: a blocked answer of this turn closes its target for this turn's claims.
  const turn: Turn = { ...writing, paused: new Set(sql.pausedTargets.all() as string[]) }
  const asked = input.trackings.map((tracking) => track(writing, tracking))
  const decided = input.reconciliations.map((reconciliation) => reconcile(turn, reconciliation))
  const recalls = decided.flatMap((one) => one.calls)
  const claimed = claimReady(turn, input.claim.slots - recalls.length)
  const calls = [...recalls, ...claimed.calls]
  if (calls.length > 0) sql.raiseHighWater.get(turn.word.now)
  const served = input.investigate.targets === null ? null : JSON.stringify(input.investigate.targets)
  const investigations = leaseInvestigations(turn, served)
  const toTrack = leaseTracked(turn)
  return {
    settled,
    tracked: asked,
    toTrack,
    lost,
    calls,
    investigations,
    reconciled: decided.map((one) => one.row),
    nextDueAt: earliest([
      nextDueAt(sql, served, investigations.length < input.investigate.slots),
      toTrack.length < input.track.slots ? nextTrackedAt(turn) : null,
      claimed.nextTokenAt,
    ]),
    more: expired === EXPIRE_A_TURN || promoted === PROMOTE_A_TURN || claimed.more,
  }
}

export function ownerOf(worker: { name: string; boot: string }): string {
  return `${worker.name}:${worker.boot}`
}

function settle(turn: Writing, result: AttemptResult, guard: Guard | null): SettledRow {
  if (guard === null) return settleOne(turn, result)
  try {
    return guard(() => settleOne(turn, result))
  } catch (error) {
    // The answer that could not be written as it came is kept for a person; the others of this turn stand.
    return guard(() => holdUnsettled(turn, result, error))
  }
}

function settleOne(turn: Writing, result: AttemptResult): SettledRow {
  const { sql, word } = turn
  if (settlePlainly(turn, result)) return settledRow(result, 'submitted', null, true)
  const row = readTaskState(sql, result.requestId)
  if (row === null) return settledRow(result, 'dead', 'unknown_request', false)
  const policy = turn.input.policyOf(row.target) ?? NO_POLICY
  const decision = decideSettlement(row, result, { now: word.now, policy, random: turn.input.random })
  if (decision.kind === 'ignored') {
    if (decision.orphan !== null) noteOrphan(sql, row, decision.orphan, word)
    return settledRow(result, row.state, decision.why, false)
  }
  const next = applyTransition(sql, row, decision, word)
  invariant(next !== null, `request ${row.requestId} changed inside a transaction`)
  return settledRow(result, next.state, next.reason, true)
}

/** First attempt, accepted, nothing else known of the row: two statements. */
function settlePlainly(turn: Writing, result: AttemptResult): boolean {
  const { outcome } = result
  if (outcome.kind !== 'accepted') return false
  const { now } = turn.word
  const policy = turn.input.policyOf(result.target) ?? NO_POLICY
  const { changes } = turn.sql.submitIfInvoking.run(
    outcome.taskId,
    result.endedAt,
    tracked(policy, now).nextCheckAt ?? null,
    JSON.stringify(brief(outcome.evidence)),
    now,
    result.requestId,
    result.attempt,
    result.nonce,
  )
  if (changes === 0) return false
  deleteRequest(turn.sql, result.requestId)
  return true
}

/** A success needs no proof of what it said but its status. */
function brief(evidence: Evidence): Evidence {
  return evidence.status === undefined ? { phase: evidence.phase } : { phase: evidence.phase, status: evidence.status }
}

function holdUnsettled(turn: Writing, result: AttemptResult, error: unknown): SettledRow {
  const row = readTaskState(turn.sql, result.requestId)
  const note = `the answer could not be written: ${(error as Error).message}`
  if (row === null || (row.state !== 'invoking' && row.state !== 'unknown'))
    return settledRow(result, 'held', note, false)
  const evidence: Evidence = { ...result.outcome.evidence, note }
  const hold = transition('held', {
    patch: {
      leaseOwner: null,
      leaseUntil: null,
      nextCheckAt: null,
      endedAt: result.endedAt,
      reason: 'settlement_failed',
      evidence,
    },
    event: { kind: 'held', reason: 'settlement_failed', detail: { outcome: result.outcome, note } },
  })
  applyTransition(turn.sql, row, hold, turn.word)
  return settledRow(result, 'held', 'settlement_failed', true)
}

function settledRow(
  result: AttemptResult,
  state: SettledRow['state'],
  reason: string | null,
  applied: boolean,
): SettledRow {
  return {
    requestId: result.requestId,
    attempt: result.attempt,
    target: result.target,
    outcome: result.outcome.kind,
    state,
    reason,
    applied,
  }
}

function renew(turn: Writing, call: { requestId: number; attempt: number; nonce: string }): boolean {
  const until = turn.word.now + turn.input.leaseMs
  return turn.sql.renewIfHeld.run(until, call.requestId, call.attempt, call.nonce, turn.owner).changes > 0
}

/** A lease that ran out permits investigation, never a call. */
function expireLeases(turn: Writing): number {
  const { sql, word } = turn
  const rows = sql.expiredLeases.all(word.now, EXPIRE_A_TURN) as TaskStateRow[]
  for (const stored of rows) {
    const row = toTaskState(stored)
    const expired = transition('unknown', {
      patch: {
        leaseOwner: null,
        leaseUntil: null,
        endedAt: Math.max(row.leaseUntil ?? word.now, row.endedAt ?? 0),
        unknownSince: row.unknownSince ?? word.now,
        nextCheckAt: word.now,
        reason: 'lease_expired',
      },
      event: {
        kind: 'unknown',
        reason: 'lease_expired',
        detail: { leaseOwner: row.leaseOwner, leaseUntil: row.leaseUntil },
      },
    })
    applyTransition(sql, row, expired, word)
  }
  return rows.length
}

function promote(turn: Writing): number {
  const { sql, word } = turn
  const due = sql.dueWaiting.all(word.now, PROMOTE_A_TURN) as {
    due_at: number
    request_id: number
    target: string
    rank: number
  }[]
  for (const row of due) {
    sql.deleteWaiting.run(row.due_at, row.request_id)
    sql.insertReady.run(row.target, row.rank, row.due_at, row.request_id)
  }
  return due.length
}

function reconcile(turn: Turn, reconciliation: Reconciliation): { row: SettledRow; calls: TurnResult['calls'] } {
  const { sql, word, input } = turn
  const { requestId, target, verdict, policy } = reconciliation
  const row = readTaskState(sql, requestId)
  const told = (state: SettledRow['state'], reason: string | null, applied: boolean): SettledRow => ({
    requestId,
    target,
    attempt: row?.attempt ?? 0,
    outcome: verdict.kind,
    state,
    reason,
    applied,
  })
  if (row === null || row.state !== 'unknown' || row.version !== reconciliation.version) {
    return { row: told(row?.state ?? 'dead', 'fenced', false), calls: [] }
  }
  const clock = { wall: word.now, latest: input.latestNow(), highWaterAt: turn.highWaterAt }
  const decision = decideReconciliation(row, verdict, { now: word.now, policy, random: input.random, clock })
  if (decision.kind === 'transition') {
    const next = applyTransition(sql, row, decision, word)
    invariant(next !== null, `request ${requestId} changed inside a transaction`)
    return { row: told(next.state, next.reason, true), calls: [] }
  }
  if (turn.paused.has(target)) {
    const wait = { at: word.now + policy.retry.initialMs, reason: 'target_paused', missCounted: false, evidence: null }
    applyTransition(sql, row, later(row, wait, word.now), word)
    return { row: told('unknown', 'target_paused', true), calls: [] }
  }
  const call = claimUnknown(turn, row, decision)
  return { row: told('invoking', decision.how, true), calls: [call] }
}

function track({ sql, word, input }: Writing, tracking: Tracking): SettledRow {
  const { requestId, target, status } = tracking
  const row = readTaskState(sql, requestId)
  const told = (state: SettledRow['state'], reason: string | null, applied: boolean): SettledRow => {
    return { requestId, target, attempt: row?.attempt ?? 0, outcome: status.kind, state, reason, applied }
  }
  if (row === null || row.state !== 'submitted' || row.version !== tracking.version) {
    return told(row?.state ?? 'dead', 'fenced', false)
  }
  const policy = input.policyOf(target) ?? NO_POLICY
  const next = applyTransition(
    sql,
    row,
    decideTracking(row, status, { now: word.now, policy, random: input.random }),
    word,
  )
  invariant(next !== null, `request ${requestId} changed inside a transaction`)
  return told(next.state, next.reason, true)
}

function leaseTracked({ sql, input, word, owner }: Turn): TrackedTask[] {
  const { slots, targets } = input.track
  if (slots <= 0 || targets.length === 0) return []
  const served = JSON.stringify(targets)
  const rows = sql.dueTracked.all(word.now, served, served, slots) as TaskStateRow[]
  return rows.map((stored) => {
    const until = word.now + input.leaseMs
    sql.leaseCheck.run(owner, until, until, stored.request_id, 'submitted', stored.version)
    return { row: toTaskState(stored), description: descriptionOf(sql, stored) }
  })
}

function nextTrackedAt({ sql, input }: Turn): number | null {
  if (input.track.targets.length === 0) return null
  const served = JSON.stringify(input.track.targets)
  return (sql.nextTrackedAt.get(served, served) as number | null | undefined) ?? null
}

function descriptionOf(sql: Statements, stored: TaskStateRow): string | null {
  return (sql.description.get(stored.target, stored.target_version) as string | undefined) ?? null
}

function leaseInvestigations(turn: Turn, served: string | null): TurnResult['investigations'] {
  const { sql, input, word, owner } = turn
  if (input.investigate.slots <= 0) return []
  const rows = sql.dueUnknown.all(word.now, served, served, input.investigate.slots) as TaskStateRow[]
  return rows.map((stored) => {
    const until = word.now + input.leaseMs
    sql.leaseCheck.run(owner, until, until, stored.request_id, 'unknown', stored.version)
    return toInvestigation(sql, stored)
  })
}

export function toInvestigation(sql: Statements, stored: TaskStateRow): TurnResult['investigations'][number] {
  const payload = (sql.payload.get(stored.request_id) as string | undefined) ?? 'null'
  return {
    row: toTaskState(stored),
    payload,
    prepared: stored.frozen === null ? null : thaw(stored.frozen, payload),
    description: descriptionOf(sql, stored),
  }
}

/**
 * The earliest instant at which something falls due by itself. `targets` is a JSON list, or null for all. With no slot left
 * to look into rows in doubt, these are no reason to wake: the end of a lookup is.
 */
export function nextDueAt(sql: Statements, targets: string | null, canInvestigate: boolean): number | null {
  const unknownAt = canInvestigate ? sql.nextUnknownAt.get(targets, targets) : null
  return earliest([sql.nextWaitingAt.get(), sql.nextLeaseEnd.get(), unknownAt])
}

function earliest(instants: readonly unknown[]): number | null {
  const known = instants.filter((at): at is number => typeof at === 'number')
  return known.length === 0 ? null : Math.min(...known)
}
