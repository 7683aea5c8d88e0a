// What an answer does to a row. Pure: the store reads the row, asks here, and writes with a compare-and-set.
// An answer never overwrites a newer attempt, and a row in doubt never becomes ready, dead or canceled by itself.
import { backoffMs, spreadMs } from './backoff.ts'
import type { Evidence, Outcome } from './outcome.ts'
import { type TargetPolicy, tellsRepeats } from './policy.ts'
import { isInDoubt, isSettled, type OlderAnswer, type TaskState } from './task-state.ts'
import {
  canceled,
  dead,
  type EventDraft,
  expired,
  isExpired,
  type Orphan,
  RELEASED,
  type TaskStatePatch,
  type Transition,
  transition,
} from './transition.ts'
import { doubtEndsAt, windowClosesAt } from './windows.ts'

/** The end of one attempt, as the worker that made the call saw it. */
export interface AttemptResult {
  readonly requestId: number
  readonly target: string
  readonly attempt: number
  readonly nonce: string
  readonly idempotencyKey: string | null
  readonly outcome: Outcome
  /** When the attempt can last have written: its answer, reset or close. */
  readonly endedAt: number
}

export type Decision = Transition | { readonly kind: 'ignored'; readonly why: string; readonly orphan: Orphan | null }

export interface SettleContext {
  readonly now: number
  readonly policy: TargetPolicy
  readonly random: () => number
}

/** What `result` does to `row`, whoever's it is now. */
export function decideSettlement(row: TaskState, result: AttemptResult, context: SettleContext): Decision {
  // A row that is being canceled knows its task too: no newer answer may take its place.
  const knowsTask = isInDoubt(row.state) && row.taskId !== null
  if (isSettled(row.state) || knowsTask) return confirmOrOrphan(row, result)
  const isNewest = row.attempt === result.attempt && row.nonce === result.nonce
  // Of a row that is queued again or ended, also the newest attempt's answer comes too late to settle it.
  return isNewest && isInDoubt(row.state) ? settleNewest(row, result, context) : settleOlder(row, result, context)
}

/** What the answer says that it made: a task, whose id may be one that the target never gives. */
function acceptedBy(result: AttemptResult): OlderAnswer | null {
  const { outcome, attempt } = result
  const isTask = outcome.kind === 'accepted' || (outcome.kind === 'exists' && outcome.ours && outcome.taskId !== null)
  return isTask ? { attempt, taskId: outcome.taskId, evidence: outcome.evidence } : null
}

/** It happened, though the answer names no task. */
function showsExecuted(outcome: Outcome): boolean {
  if (outcome.kind === 'unknown') return outcome.executed
  return (
    outcome.kind === 'accepted_without_id' || (outcome.kind === 'exists' && outcome.ours && outcome.taskId === null)
  )
}

function confirmOrOrphan(row: TaskState, result: AttemptResult): Decision {
  const accepted = acceptedBy(result)
  if (accepted === null) return { kind: 'ignored', why: 'late', orphan: null }
  return { kind: 'ignored', why: 'confirmed', orphan: orphanOf(accepted, row.taskId) }
}

function orphanOf(accepted: OlderAnswer | null, settledOn: string | null): Orphan | null {
  if (accepted === null || accepted.taskId === null || accepted.taskId === settledOn) return null
  return { ...accepted, taskId: accepted.taskId }
}

/** What an answer names although its request was purged: nobody can tell any more whether that is the task it settled on. */
export function taskOfPurged(result: AttemptResult): Orphan | null {
  return orphanOf(acceptedBy(result), null)
}

function settleOlder(row: TaskState, result: AttemptResult, context: SettleContext): Decision {
  const accepted = acceptedBy(result)
  if (row.state === 'dead' || row.state === 'canceled') return tellEnded(row, result, accepted)
  if (accepted !== null) return adoptOlder(row, result, accepted, context)
  if (showsExecuted(result.outcome)) return noteExecuted(row, result)
  const { kind } = result.outcome
  const isProven = kind === 'not_executed' || kind === 'rejected' || kind === 'blocked'
  // Of older attempts the number is the token; the newest one's answer must show its nonce too.
  if (!isProven || result.attempt >= row.attempt || !row.doubtfulAttempts.includes(result.attempt))
    return { kind: 'ignored', why: 'fenced', orphan: null }
  return transition(row.state, { patch: { doubtfulAttempts: without(row, result.attempt) }, event: lateAnswer(result) })
}

/** The row has ended without a task; one that exists after all is a person's to judge. */
function tellEnded(row: TaskState, result: AttemptResult, accepted: OlderAnswer | null): Decision {
  const orphan = orphanOf(accepted, row.taskId)
  if (orphan !== null || (accepted === null && !showsExecuted(result.outcome)))
    return { kind: 'ignored', why: 'late', orphan }
  return transition(row.state, { event: lateAnswer(result) })
}

function adoptOlder(row: TaskState, result: AttemptResult, accepted: OlderAnswer, context: SettleContext): Decision {
  const isSameKey = result.idempotencyKey !== null && result.idempotencyKey === row.idempotencyKey
  const isSameTask = tellsRepeats(context.policy.key) && isSameKey
  if (isSameTask || row.state === 'queued') return settleOn(row, accepted, context, 'late_answer')
  // Without a key nobody can tell whether the newer attempt made a task of its own: both are kept until it settles.
  if (row.olderAnswer !== null)
    return { kind: 'ignored', why: 'late', orphan: orphanOf(accepted, row.olderAnswer.taskId) }
  return transition(row.state, { patch: { olderAnswer: accepted }, event: lateAnswer(result) })
}

/** A call that surely happened must not be repeated after a miss, nor by a queue that it was sent back to. */
function noteExecuted(row: TaskState, result: AttemptResult): Decision {
  if (row.executed) return { kind: 'ignored', why: 'known', orphan: null }
  const patch = { executed: true, evidence: result.outcome.evidence }
  if (row.state !== 'queued') return transition(row.state, { patch, event: lateAnswer(result) })
  return transition('held', { patch: { ...patch, reason: 'executed_without_id' }, event: lateAnswer(result) })
}

/** The end of the newest attempt is known better now; misses before it prove nothing. */
function noteEnd(row: TaskState, result: AttemptResult): Decision {
  if (row.state !== 'unknown' || row.isEndObserved) return { kind: 'ignored', why: 'known', orphan: null }
  const endedAt = Math.max(result.endedAt, row.endedAt ?? 0)
  return transition('unknown', {
    patch: { endedAt, isEndObserved: true, misses: 0, lastMissAt: null },
    event: lateAnswer(result),
  })
}

function lateAnswer(result: AttemptResult): EventDraft {
  const { outcome, attempt } = result
  return { kind: 'late_answer', reason: outcome.kind, detail: { attempt, outcome } }
}

function without(row: TaskState, attempt: number): number[] {
  return row.doubtfulAttempts.filter((doubtful) => doubtful !== attempt)
}

function settleNewest(row: TaskState, result: AttemptResult, context: SettleContext): Decision {
  const { outcome } = result
  const accepted = acceptedBy(result)
  if (accepted !== null) return settleOn(row, accepted, context, 'answer')
  // It was sent back to the queue, then held by this attempt's answer: nothing is left of the call to look into it with.
  if (row.startedAt === null)
    return showsExecuted(outcome) ? noteExecuted(row, result) : { kind: 'ignored', why: 'late', orphan: null }
  switch (outcome.kind) {
    case 'exists':
      return outcome.ours ? doubt(row, result, context, 'exists_without_id') : hold(row, result, 'exists_not_ours')
    case 'mismatch':
      return hold(row, result, 'mismatch')
    case 'unknown':
      if (row.state === 'invoking') return doubt(row, result, context, 'unknown')
      return outcome.executed ? noteExecuted(row, result) : noteEnd(row, result)
    case 'not_executed':
    case 'rejected':
    case 'blocked':
      // Told once: again, it would give back another replay, or close a target that has been opened since.
      if (!row.doubtfulAttempts.includes(result.attempt)) return { kind: 'ignored', why: 'known', orphan: null }
      return settleWithoutEffect(row, result, context)
    default:
      return doubt(row, result, context, outcome.kind)
  }
}

/**
 * The row's task is known: from an answer, a lookup or a person. A task that somebody asked to cancel meanwhile goes on to
 * recovery, which cancels it at the API.
 */
export function settleOn(row: TaskState, task: OlderAnswer, context: SettleContext, how: string): Transition {
  const { taskId, evidence } = task
  const orphan = orphanOf(row.olderAnswer, taskId)
  const settled = { ...RELEASED, taskId, evidence, endedAt: context.now, doubtfulAttempts: [], olderAnswer: null }
  const event = (kind: string) => ({ kind, reason: how, detail: { taskId, evidence } })
  if (!row.cancelRequested) {
    const patch = { ...settled, ...tracked(context.policy, context.now) }
    const keepPayload = context.policy.keepPayloadMs !== null
    return transition('submitted', { patch, orphan, keepPayload, event: event('submitted') })
  }
  if (taskId === null) {
    const patch = { ...settled, executed: true, nextCheckAt: null, reason: 'cancel_without_id' }
    return transition('held', { patch, orphan, event: event('held') })
  }
  const unknownSince = row.unknownSince ?? context.now
  const patch = { ...settled, unknownSince, nextCheckAt: context.now, reason: 'cancel_requested' }
  return transition('unknown', { patch, orphan, event: event('task_found_while_canceling') })
}

/** A submitted row starts its life as one that is asked about, where its target can be asked. */
export function tracked(policy: TargetPolicy, now: number): TaskStatePatch {
  const nextCheckAt = policy.tracking === null ? null : now + policy.tracking.everyMs
  return { nextCheckAt, reason: null, unknownSince: null, misses: 0, lastMissAt: null }
}

function doubt(row: TaskState, result: AttemptResult, context: SettleContext, reason: string): Transition {
  const { evidence } = result.outcome
  return transition('unknown', {
    patch: {
      ...RELEASED,
      executed: row.executed || showsExecuted(result.outcome),
      endedAt: Math.max(result.endedAt, row.endedAt ?? 0),
      isEndObserved: !(result.outcome.kind === 'unknown' && result.outcome.isRunning === true),
      // What was missed before the attempt was over is no miss of it.
      misses: 0,
      lastMissAt: null,
      unknownSince: row.unknownSince ?? context.now,
      nextCheckAt: firstCheckAt(row, result.outcome, context),
      backoffStep: row.backoffStep + 1,
      reason,
      evidence,
    },
    event: { kind: 'unknown', reason, detail: { evidence } },
  })
}

/** A told wait must cost neither the key's window nor the deadline, and nobody waits where there is nothing to ask. */
function firstCheckAt(row: TaskState, outcome: Outcome, context: SettleContext): number {
  const { now, policy } = context
  if (policy.key === null && policy.lookup === null) return now
  const at = now + nextWaitMs(row.backoffStep, toldWaitMs(outcome), context)
  const soonest = now + nextWaitMs(row.backoffStep, null, context)
  const closesAt = windowClosesAt(row, policy) ?? Number.POSITIVE_INFINITY
  return Math.min(at, doubtEndsAt(row, policy, now), Math.max(soonest, closesAt - policy.timeoutMs))
}

function hold(row: TaskState, result: AttemptResult, reason: string): Transition {
  const { evidence } = result.outcome
  return transition('held', {
    patch: {
      ...RELEASED,
      endedAt: Math.max(result.endedAt, row.endedAt ?? 0),
      isEndObserved: true,
      nextCheckAt: null,
      reason,
      evidence,
    },
    event: { kind: 'held', reason, detail: { evidence } },
  })
}

function settleWithoutEffect(row: TaskState, result: AttemptResult, context: SettleContext): Transition {
  const { outcome } = result
  const proven = { ...row, doubtfulAttempts: without(row, result.attempt) }
  const decided = decideWithoutEffect(proven, result, context)
  const pauseTarget = outcome.kind === 'blocked' ? blockedReason(outcome.evidence) : null
  return { ...decided, patch: { doubtfulAttempts: proven.doubtfulAttempts, ...decided.patch }, pauseTarget }
}

function decideWithoutEffect(row: TaskState, result: AttemptResult, context: SettleContext): Transition {
  const { outcome } = result
  // The newer attempt surely had no effect, so what an older one made is the task.
  if (row.olderAnswer !== null)
    return settleOn({ ...row, olderAnswer: null }, row.olderAnswer, context, 'older_attempt')
  if (row.doubtfulAttempts.length > 0) return backToDoubt(row, result, context)
  // An earlier answer showed that it happened: whatever this attempt was refused, there is a task to find.
  if (row.executed) return doubt(row, result, context, 'executed_without_id')
  if (row.cancelRequested) return canceled(outcome.evidence, 'no_effect')
  if (outcome.kind === 'rejected') return dead(outcome.evidence, 'rejected', row.attempts, keepsPlace(context))
  if (isExpired(row.expiresAt, context.now)) return expired(row, outcome.evidence, keepsPlace(context))
  return requeue(row, result, context)
}

/** Sticky doubt: this attempt had no effect, but an earlier one still may have had. */
function backToDoubt(row: TaskState, result: AttemptResult, context: SettleContext): Transition {
  if (result.outcome.kind === 'rejected') return hold(row, result, 'rejected_in_doubt')
  const back = doubt(row, result, context, `${result.outcome.kind}_in_doubt`)
  const replays = isRefunded(result.outcome) ? Math.max(0, row.replays - 1) : row.replays
  return { ...back, patch: { ...back.patch, replays } }
}

function requeue(row: TaskState, result: AttemptResult, context: SettleContext): Transition {
  const { outcome } = result
  const { evidence } = outcome
  const attempts = isRefunded(outcome) ? Math.max(0, row.attempts - 1) : row.attempts
  if (attempts >= context.policy.retry.maxAttempts)
    return dead(evidence, 'attempts_spent', attempts, keepsPlace(context))
  const isWritten = outcome.kind === 'not_executed' ? outcome.written : evidence.phase !== 'not_sent'
  // The claim wrote both instants at once, so equal ones say that no earlier attempt began the key's window.
  const beganWindow = row.startedAt === row.updatedAt
  // An API that is down for a night must not fill the disk with the same line.
  const isSameAgain = !isWritten && row.evidence?.error === evidence.error
  const waitMs = outcome.kind === 'blocked' ? 0 : nextWaitMs(row.backoffStep, toldWaitMs(outcome), context)
  return transition('queued', {
    patch: {
      ...RELEASED,
      attempts,
      backoffStep: row.backoffStep + 1,
      startedAt: !isWritten && beganWindow ? null : row.startedAt,
      endedAt: null,
      unknownSince: null,
      nextCheckAt: null,
      reason: isParked(outcome, context.policy) ? 'parked' : outcome.kind,
      evidence,
    },
    dueAt: context.now + waitMs,
    unfreeze: true,
    // The API would repeat its refusal under this key for as long as it remembers it.
    raiseGeneration: (isWritten || isRepeat(row)) && context.policy.key?.failedFirst === 'replayed',
    event: isSameAgain ? null : { kind: outcome.kind, reason: evidence.rule ?? null, detail: { evidence, waitMs } },
  })
}

/** An attempt before it was in doubt under the same key: it may have left, and what it was refused is then kept under that key. */
function isRepeat({ unknownSince, attempts, replays }: TaskState): boolean {
  return unknownSince !== null && attempts + replays > 1
}

/** Of one that ends dead. */
function keepsPlace({ policy }: SettleContext): boolean {
  return policy.onDead === 'block'
}

/** Told to wait for longer than its target lets a request wait unseen. */
function isParked(outcome: Outcome, policy: TargetPolicy): boolean {
  return (toldWaitMs(outcome) ?? 0) > policy.rateLimit.maxWaitMs
}

/** The attempt burned no budget: it was never written, limited by the API, or refused for the target's sake. */
function isRefunded(outcome: Outcome): boolean {
  return outcome.kind === 'blocked' || (outcome.kind === 'not_executed' && outcome.refund)
}

function toldWaitMs(outcome: Outcome): number | null {
  return 'retryAfterMs' in outcome ? outcome.retryAfterMs : null
}

function nextWaitMs(step: number, toldMs: number | null, context: SettleContext): number {
  const own = backoffMs(context.policy.retry, step, context.random())
  return toldMs === null ? own : Math.max(own, spreadMs(toldMs, context.random()))
}

function blockedReason(evidence: Evidence): string {
  return `blocked: ${evidence.status === undefined ? (evidence.error ?? 'no answer') : `HTTP ${evidence.status}`}`
}
