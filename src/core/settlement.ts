// What an answer does to a row. Pure: the store reads the row, asks here, and writes with a compare-and-set.
// An answer never overwrites a newer attempt, and a row in doubt never becomes ready, dead or canceled by itself.
import { backoffMs, spreadMs } from './backoff.ts'
import type { Evidence, Outcome } from './outcome.ts'
import { type TargetPolicy, tellsRepeats } from './policy.ts'
import { isInDoubt, isSettled, type StoredState, type TaskState } from './task-state.ts'

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

export type TaskStatePatch = { -readonly [K in keyof TaskState]?: TaskState[K] }

export interface EventDraft {
  readonly kind: string
  readonly reason: string | null
  readonly detail?: unknown
}

/** One transition as data; the store executes it whole. */
export interface Transition {
  readonly kind: 'transition'
  readonly to: StoredState
  readonly patch: TaskStatePatch
  /** Where `to` is `queued`: when the request is due again. */
  readonly dueAt: number | null
  /** The task is known (or the request gone): work is owed no more. */
  readonly request: 'keep' | 'delete'
  /** The next attempt renders its call anew. */
  readonly unfreeze: boolean
  readonly freeHash: boolean
  readonly raiseGeneration: boolean
  readonly pauseTarget: string | null
  readonly orphan: { readonly attempt: number; readonly taskId: string; readonly evidence: Evidence | null } | null
  readonly event: EventDraft | null
}

export type Decision =
  | Transition
  | { readonly kind: 'ignored'; readonly why: string; readonly orphan: Transition['orphan'] }

export interface SettleContext {
  readonly now: number
  readonly policy: TargetPolicy
  readonly random: () => number
}

export function transition(to: StoredState, parts: Partial<Omit<Transition, 'kind' | 'to'>> = {}): Transition {
  return {
    kind: 'transition',
    to,
    patch: {},
    dueAt: null,
    request: 'keep',
    unfreeze: false,
    freeHash: false,
    raiseGeneration: false,
    pauseTarget: null,
    orphan: null,
    event: null,
    ...parts,
  }
}

/** What `result` does to `row`, whoever's it is now. */
export function decideSettlement(row: TaskState, result: AttemptResult, context: SettleContext): Decision {
  const isNewest = row.attempt === result.attempt && row.nonce === result.nonce
  if (isSettled(row.state)) return confirmOrOrphan(row, result)
  if (!isNewest) return settleOlder(row, result, context)
  if (isInDoubt(row.state)) return settleNewest(row, result, context)
  // Queued again (a person said "not executed") or ended: only a task that exists after all can change that.
  return settleOlder(row, result, context)
}

function taskIdOf(outcome: Outcome): string | null {
  if (outcome.kind === 'accepted') return outcome.taskId
  return outcome.kind === 'exists' && outcome.ours ? outcome.taskId : null
}

function isTask(outcome: Outcome): boolean {
  return outcome.kind === 'accepted' || (outcome.kind === 'exists' && outcome.ours && outcome.taskId !== null)
}

function confirmOrOrphan(row: TaskState, result: AttemptResult): Decision {
  const taskId = taskIdOf(result.outcome)
  if (taskId === null || taskId === row.taskId) return { kind: 'ignored', why: 'confirmed', orphan: null }
  return {
    kind: 'ignored',
    why: 'orphan',
    orphan: { attempt: result.attempt, taskId, evidence: result.outcome.evidence },
  }
}

function settleOlder(row: TaskState, result: AttemptResult, context: SettleContext): Decision {
  const { outcome } = result
  if (isTask(outcome)) {
    const taskId = taskIdOf(outcome)
    if (row.state === 'dead' || row.state === 'canceled') return confirmOrOrphan(row, result)
    const sameKey =
      tellsRepeats(context.policy.key) && result.idempotencyKey !== null && result.idempotencyKey === row.idempotencyKey
    if (sameKey || row.state === 'queued') return submit(row, outcome, taskId, context, 'late_answer')
    if (row.olderTaskId !== null && row.olderTaskId !== taskId) return confirmOrOrphan(row, result)
    return keepOlder(row, result, taskId)
  }
  const proven = outcome.kind === 'not_executed' || outcome.kind === 'rejected' || outcome.kind === 'blocked'
  if (!proven || !row.doubtfulAttempts.includes(result.attempt)) return { kind: 'ignored', why: 'fenced', orphan: null }
  return transition(row.state, {
    patch: { doubtfulAttempts: row.doubtfulAttempts.filter((attempt) => attempt !== result.attempt) },
    event: {
      kind: 'late_answer',
      reason: outcome.kind,
      detail: { attempt: result.attempt, evidence: outcome.evidence },
    },
  })
}

/** Without a key nobody can tell whether the newer attempt made a task of its own: keep both until it settles. */
function keepOlder(row: TaskState, result: AttemptResult, taskId: string | null): Decision {
  return transition(row.state, {
    patch: { olderTaskId: taskId },
    event: {
      kind: 'late_answer',
      reason: 'older_attempt',
      detail: { attempt: result.attempt, taskId, evidence: result.outcome.evidence },
    },
  })
}

function settleNewest(row: TaskState, result: AttemptResult, context: SettleContext): Decision {
  const { outcome } = result
  switch (outcome.kind) {
    case 'accepted':
      return submit(row, outcome, outcome.taskId, context, 'answer')
    case 'exists':
      if (!outcome.ours) return hold(row, result, 'exists_not_ours')
      return outcome.taskId === null
        ? doubt(row, result, context, { executed: true, reason: 'exists_without_id' })
        : submit(row, outcome, outcome.taskId, context, 'answer')
    case 'accepted_without_id':
      return doubt(row, result, context, { executed: true, reason: 'accepted_without_id' })
    case 'in_flight':
      return doubt(row, result, context, { reason: 'in_flight', waitMs: outcome.retryAfterMs })
    case 'mismatch':
      return hold(row, result, 'mismatch')
    case 'unknown':
      if (row.state !== 'invoking') return { kind: 'ignored', why: 'known_unknown', orphan: null }
      return doubt(row, result, context, {
        executed: outcome.executed,
        reason: 'unknown',
        waitMs: outcome.retryAfterMs,
      })
    case 'not_executed':
    case 'rejected':
    case 'blocked':
      return settleWithoutEffect(row, result, context)
  }
}

function submit(
  row: TaskState,
  outcome: Outcome,
  taskId: string | null,
  context: SettleContext,
  how: string,
): Transition {
  const other = row.olderTaskId !== null && row.olderTaskId !== taskId ? row.olderTaskId : null
  const orphan = other === null ? null : { attempt: row.attempt - 1, taskId: other, evidence: row.evidence }
  const settled = {
    ...RELEASED,
    taskId,
    endedAt: context.now,
    doubtfulAttempts: [],
    olderTaskId: null,
    evidence: outcome.evidence,
  }
  if (row.cancelRequested) return cancelKnownTask(row, settled, orphan, context)
  const plain = how === 'answer' && row.state === 'invoking' && row.attempt === 1
  return transition('submitted', {
    patch: { ...settled, ...tracked(context.policy, context.now) },
    request: 'delete',
    orphan,
    event: plain ? null : { kind: 'submitted', reason: how, detail: { taskId } },
  })
}

/** A submitted row starts its life as one that is asked about, where its target can be asked. */
export function tracked(policy: TargetPolicy, now: number): TaskStatePatch {
  const nextCheckAt = policy.tracking === null ? null : now + policy.tracking.everyMs
  return { nextCheckAt, reason: null, unknownSince: null, misses: 0, lastMissAt: null }
}

/** A person asked for cancellation before the task was known: the sweep cancels it at the API. */
function cancelKnownTask(
  row: TaskState,
  settled: TaskStatePatch,
  orphan: Transition['orphan'],
  context: SettleContext,
): Transition {
  return transition('unknown', {
    patch: {
      ...settled,
      reason: 'cancel_requested',
      unknownSince: row.unknownSince ?? context.now,
      nextCheckAt: context.now,
    },
    orphan,
    event: { kind: 'task_found_while_canceling', reason: 'cancel_requested', detail: { taskId: settled.taskId } },
  })
}

const RELEASED = { leaseOwner: null, leaseUntil: null } as const

function doubt(
  row: TaskState,
  result: AttemptResult,
  context: SettleContext,
  why: { reason: string; executed?: boolean; waitMs?: number | null },
): Transition {
  const { evidence } = result.outcome
  return transition('unknown', {
    patch: {
      ...RELEASED,
      executed: row.executed || why.executed === true,
      endedAt: Math.max(result.endedAt, row.endedAt ?? 0),
      unknownSince: row.unknownSince ?? context.now,
      nextCheckAt: context.now + nextWaitMs(row.backoffStep, why.waitMs ?? null, context),
      backoffStep: row.backoffStep + 1,
      reason: why.reason,
      evidence,
    },
    event: { kind: 'unknown', reason: why.reason, detail: { evidence } },
  })
}

function hold(row: TaskState, result: AttemptResult, reason: string): Transition {
  const { evidence } = result.outcome
  return transition('held', {
    patch: { ...RELEASED, endedAt: Math.max(result.endedAt, row.endedAt ?? 0), nextCheckAt: null, reason, evidence },
    event: { kind: 'held', reason, detail: { evidence } },
  })
}

function settleWithoutEffect(row: TaskState, result: AttemptResult, context: SettleContext): Transition {
  const { outcome } = result
  // The newer attempt surely had no effect, so a task named by an older one is the task.
  if (row.olderTaskId !== null)
    return submit({ ...row, olderTaskId: null }, outcome, row.olderTaskId, context, 'older_attempt')
  if (row.doubtfulAttempts.length > 0) return backToDoubt(row, result, context)
  const pauseTarget = outcome.kind === 'blocked' ? blockedReason(outcome.evidence) : null
  if (row.cancelRequested) return { ...canceled(outcome.evidence, 'no_effect'), pauseTarget }
  if (outcome.kind === 'rejected') return dead(outcome.evidence, 'rejected', row.attempts)
  return requeue(row, result, context, pauseTarget)
}

/** Sticky doubt: this attempt had no effect, but an earlier one still may have had. */
function backToDoubt(row: TaskState, result: AttemptResult, context: SettleContext): Transition {
  const { outcome } = result
  if (outcome.kind === 'rejected') return hold(row, result, 'rejected_in_doubt')
  const waitMs = outcome.kind === 'not_executed' ? outcome.retryAfterMs : null
  const back = doubt(row, result, context, { reason: `${outcome.kind}_in_doubt`, waitMs })
  // This attempt is proven; only the earlier ones stay in doubt, and a refunded replay was no replay.
  const refund = outcome.kind === 'blocked' || (outcome.kind === 'not_executed' && outcome.refund)
  return {
    ...back,
    patch: { ...back.patch, replays: refund ? Math.max(0, row.replays - 1) : row.replays },
    pauseTarget: outcome.kind === 'blocked' ? blockedReason(outcome.evidence) : null,
  }
}

function requeue(
  row: TaskState,
  result: AttemptResult,
  context: SettleContext,
  pauseTarget: string | null,
): Transition {
  const { outcome } = result
  const refund = outcome.kind === 'blocked' || (outcome.kind === 'not_executed' && outcome.refund)
  const attempts = refund ? Math.max(0, row.attempts - 1) : row.attempts
  if (attempts >= context.policy.retry.maxAttempts) return dead(outcome.evidence, 'attempts_spent', attempts)
  const written = outcome.kind === 'not_executed' && outcome.written
  const told = outcome.kind === 'not_executed' ? outcome.retryAfterMs : null
  const wait = outcome.kind === 'blocked' ? 0 : nextWaitMs(row.backoffStep, told, context)
  return transition('queued', {
    patch: {
      ...RELEASED,
      attempts,
      backoffStep: row.backoffStep + 1,
      startedAt: null,
      endedAt: null,
      unknownSince: null,
      nextCheckAt: null,
      reason: outcome.kind,
      evidence: outcome.evidence,
    },
    dueAt: context.now + wait,
    unfreeze: true,
    raiseGeneration: written && context.policy.key?.failedFirst === 'replayed',
    pauseTarget,
    event: {
      kind: outcome.kind,
      reason: outcome.evidence.rule ?? null,
      detail: { evidence: outcome.evidence, waitMs: wait },
    },
  })
}

export function dead(evidence: Evidence, reason: string, attempts: number): Transition {
  return transition('dead', {
    patch: { ...RELEASED, attempts, nextCheckAt: null, reason, evidence },
    unfreeze: true,
    event: { kind: 'dead', reason, detail: { evidence } },
  })
}

export function canceled(evidence: Evidence | null, reason: string): Transition {
  return transition('canceled', {
    patch: { ...RELEASED, nextCheckAt: null, doubtfulAttempts: [], reason, ...(evidence === null ? {} : { evidence }) },
    freeHash: true,
    event: { kind: 'canceled', reason, detail: { evidence } },
  })
}

function nextWaitMs(step: number, toldMs: number | null, context: SettleContext): number {
  const own = backoffMs(context.policy.retry, step, context.random())
  return toldMs === null ? own : Math.max(own, spreadMs(toldMs, context.random()))
}

function blockedReason(evidence: Evidence): string {
  return `blocked: ${evidence.status === undefined ? (evidence.error ?? 'no answer') : `HTTP ${evidence.status}`}`
}
