// Writes what one answer proved. The plain happy path is two statements; whatever else is true of the row goes the long way.
import type { Evidence } from '../../core/outcome.ts'
import { NO_POLICY } from '../../core/policy.ts'
import { type AttemptResult, decideSettlement, taskOfPurged, tracked } from '../../core/settlement.ts'
import { RELEASED, transition } from '../../core/transition.ts'
import type { SettledRow } from '../turn.ts'
import { pauseTarget } from './pauses.ts'
import { noteToldWait, returnPermits } from './told-waits.ts'
import { applyTransition, deleteRequest, noteOrphan, readTaskState } from './transitions.ts'
import type { Turn } from './turn-context.ts'

/** Gives each settlement a savepoint of its own; without, a turn is a third faster. */
export type Guard = <T>(work: () => T) => T

export function settle(turn: Turn, result: AttemptResult, guard: Guard | null): SettledRow {
  if (guard === null) return settleOne(turn, result)
  try {
    return guard(() => settleOne(turn, result))
  } catch (error) {
    // The answer that could not be written as it came is kept for a person; the others of this turn stand.
    return guard(() => holdUnsettled(turn, result, error))
  }
}

function settleOne(turn: Turn, result: AttemptResult): SettledRow {
  const { sql, word } = turn
  if (settlePlainly(turn, result)) return plainlySubmitted(result)
  const row = readTaskState(sql, result.requestId)
  if (row === null) return notePurged(turn, result)
  const policy = turn.input.policyOf(row.target) ?? NO_POLICY
  const decision = decideSettlement(row, result, { now: word.now, policy, random: turn.input.random })
  if (decision.kind === 'ignored') {
    if (decision.orphan !== null) noteOrphan(sql, row, decision.orphan, word)
    return settledRow(result, row.state, decision.why, false)
  }
  const next = applyTransition(sql, row, decision, word)
  const { pauseTarget: why } = decision
  if (why !== null && pauseTarget(sql, row.target, why, word))
    turn.stops.push({ target: row.target, kind: 'paused', why, until: null })
  // Told once: an answer that comes again would close a target that has been opened since.
  noteToldWait(turn, result, policy)
  if (result.outcome.evidence.phase === 'not_sent') returnPermits(turn, row, result, policy)
  return settledRow(result, next.state, next.reason, true)
}

/** A late answer of a request that a purge has removed since: a task that it names stays on record, for a person. */
function notePurged({ sql, word }: Turn, result: AttemptResult): SettledRow {
  const orphan = taskOfPurged(result)
  if (orphan !== null) {
    const evidence = JSON.stringify(orphan.evidence)
    sql.insertOrphan.run(result.requestId, result.target, orphan.attempt, orphan.taskId, word.now, evidence)
  }
  const { kind } = result.outcome
  const detail = JSON.stringify({ outcome: result.outcome })
  const { requestId, target, attempt } = result
  sql.insertEvent.run(
    requestId,
    target,
    word.now,
    'late_answer',
    null,
    null,
    attempt,
    word.actor,
    `purged: ${kind}`,
    detail,
  )
  return settledRow(result, 'dead', orphan === null ? 'unknown_request' : 'purged_request', false)
}

/** First attempt, accepted, nothing else known of the row: two statements. */
function settlePlainly(turn: Turn, result: AttemptResult): boolean {
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
  if (policy.keepPayloadMs !== null) turn.sql.keepPayload.run(now, result.requestId)
  deleteRequest(turn.sql, result.requestId, now)
  return true
}

/** A success needs no proof of what it said but its status. */
export function brief(evidence: Evidence): Evidence {
  return evidence.status === undefined ? { phase: evidence.phase } : { phase: evidence.phase, status: evidence.status }
}

function holdUnsettled(turn: Turn, result: AttemptResult, error: unknown): SettledRow {
  const row = readTaskState(turn.sql, result.requestId)
  const note = `the answer could not be written: ${(error as Error).message}`
  if (row === null) return settledRow(result, 'dead', 'unknown_request', false)
  if (row.state !== 'invoking' && row.state !== 'unknown') return settledRow(result, row.state, note, false)
  const evidence: Evidence = { ...result.outcome.evidence, note }
  const hold = transition('held', {
    patch: { ...RELEASED, nextCheckAt: null, endedAt: result.endedAt, reason: 'settlement_failed', evidence },
    event: { kind: 'held', reason: 'settlement_failed', detail: { outcome: result.outcome, note } },
  })
  applyTransition(turn.sql, row, hold, turn.word)
  return settledRow(result, 'held', 'settlement_failed', true)
}

export function plainlySubmitted({ requestId, attempt, target, outcome }: AttemptResult): SettledRow {
  return {
    requestId,
    attempt,
    target,
    outcome: outcome.kind,
    state: 'submitted',
    reason: null,
    applied: true,
    isPlain: true,
  }
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
