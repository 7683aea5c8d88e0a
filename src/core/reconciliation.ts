// What recovery asks of a row in doubt, and what that does. The sweep proposes; the transaction checks again and writes.
import type { Evidence } from './outcome.ts'
import type { TargetPolicy } from './policy.ts'
import { type SettleContext, settleOn } from './settlement.ts'
import type { TaskState } from './task-state.ts'
import { canceled, expired, isExpired, RELEASED, type Transition, transition } from './transition.ts'
import { clockKnownAt, doubtEndsAt, isPastDeadline, mayRecall, replayWindow, type WindowClock } from './windows.ts'

export type ReconciliationVerdict =
  /** The lookup found the task. */
  | { readonly kind: 'adopt'; readonly taskId: string; readonly evidence: Evidence }
  /** Send the same bytes under the same key. */
  | { readonly kind: 'replay'; readonly reason: string }
  /** Settled misses: it surely never arrived; call again. */
  | { readonly kind: 'recall'; readonly reason: string; readonly evidence: Evidence }
  | { readonly kind: 'hold'; readonly reason: string; readonly evidence: Evidence | null }
  | {
      readonly kind: 'later'
      readonly at: number
      readonly reason: string
      readonly missCounted: boolean
      readonly evidence: Evidence | null
    }
  /** Canceled at the API, or surely never there. */
  | { readonly kind: 'canceled'; readonly reason: string; readonly evidence: Evidence | null }

/** What it leads to is a call. */
export function isCall(
  verdict: ReconciliationVerdict,
): verdict is ReconciliationVerdict & { kind: 'replay' | 'recall' } {
  return verdict.kind === 'replay' || verdict.kind === 'recall'
}

export interface Reconciliation {
  readonly requestId: number
  readonly target: string
  /** The row's version as it was investigated: the fence. */
  readonly version: number
  /** The stricter of the description that made the doubt and the present one. */
  readonly policy: TargetPolicy
  readonly verdict: ReconciliationVerdict
}

export type ReconciliationDecision =
  | Transition
  /** Straight from `unknown` to `invoking`, in this transaction. */
  | {
      readonly kind: 'call'
      readonly how: 'replay' | 'recall'
      readonly reason: string
      readonly patch: Transition['patch']
    }

export interface ReconcileContext extends SettleContext {
  readonly clock: WindowClock
}

export function decideReconciliation(
  row: TaskState,
  verdict: ReconciliationVerdict,
  context: ReconcileContext,
): ReconciliationDecision {
  switch (verdict.kind) {
    case 'adopt':
      return settleOn(row, { attempt: row.attempt, ...verdict }, context, 'lookup')
    case 'replay':
      return replay(row, verdict.reason, context)
    case 'recall':
      return recall(row, verdict, context)
    case 'hold':
      return holdRow(verdict.reason, verdict.evidence)
    case 'later':
      return later(row, verdict, context.now)
    case 'canceled':
      return canceled(verdict.evidence, verdict.reason)
  }
}

function replay(row: TaskState, reason: string, context: ReconcileContext): ReconciliationDecision {
  const { policy, now } = context
  if (row.cancelRequested) return holdRow('cancel_requested', null)
  if (row.replays >= (policy.key?.maxReplays ?? 0)) return holdRow('replays_spent', null)
  const window = replayWindow(row, policy, context.clock)
  if (window.kind === 'wait') {
    if (isPastDeadline(row, policy, now)) return holdRow('deadline', null)
    const at = Math.min(window.until, doubtEndsAt(row, policy, now))
    return later(row, { at, reason: 'clock_behind', missCounted: false, evidence: null }, now)
  }
  if (window.kind !== 'open') return holdRow('key_window_closed', null)
  if (isPastDeadline(row, policy, now)) return holdRow('deadline', null)
  return { kind: 'call', how: 'replay', reason, patch: { replays: row.replays + 1 } }
}

function recall(
  row: TaskState,
  { reason, evidence }: { reason: string; evidence: Evidence },
  context: ReconcileContext,
): ReconciliationDecision {
  const { policy, clock, now } = context
  const until = clockKnownAt(clock)
  if (until !== null) return later(row, { at: until, reason: 'clock_behind', missCounted: false, evidence }, now)
  if (!mayRecall(row, policy, context.clock, row.misses + 1)) return holdRow('miss_without_proof', evidence)
  // None of its attempts happened, so a call now would be its first, and too late.
  if (isExpired(row.expiresAt, now)) return expired(row, evidence, policy.onDead === 'block')
  if (row.attempts >= policy.retry.maxAttempts) return holdRow('attempts_spent', evidence)
  // The settled misses cover every attempt so far: none of them is in doubt any more.
  const patch = { attempts: row.attempts + 1, doubtfulAttempts: [], evidence }
  return { kind: 'call', how: 'recall', reason, patch }
}

function holdRow(reason: string, evidence: Evidence | null): Transition {
  return transition('held', {
    patch: { ...RELEASED, nextCheckAt: null, reason, ...(evidence === null ? {} : { evidence }) },
    event: { kind: 'held', reason, detail: { evidence } },
  })
}

const TOLD_ROUNDS = 100

export function later(
  row: TaskState,
  verdict: { at: number; reason: string; missCounted: boolean; evidence: Evidence | null },
  now: number,
): Transition {
  const misses = row.misses + (verdict.missCounted ? 1 : 0)
  // A lookup that wavers for a day must not fill the disk: the rounds are counted, and the row keeps the last.
  const isNews = verdict.missCounted || (verdict.reason !== row.reason && row.backoffStep < TOLD_ROUNDS)
  return transition('unknown', {
    patch: {
      ...RELEASED,
      misses,
      lastMissAt: verdict.missCounted ? now : row.lastMissAt,
      nextCheckAt: verdict.at,
      backoffStep: row.backoffStep + 1,
      reason: verdict.reason,
    },
    event: isNews
      ? { kind: 'asked_later', reason: verdict.reason, detail: { misses, evidence: verdict.evidence } }
      : null,
  })
}
