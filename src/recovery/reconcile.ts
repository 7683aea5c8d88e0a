// One row in doubt, looked into: the ladder lookup -> replay -> hold as far as its target has it. This only proposes: the
// turn's transaction checks windows, misses and limits again before it writes.
import { backoffMs } from '../core/backoff.ts'
import type { Clock } from '../core/clock.ts'
import { errorText } from '../core/error-text.ts'
import type { Evidence, LookupResult } from '../core/outcome.ts'
import { NO_POLICY, stricterPolicy, type TargetPolicy } from '../core/policy.ts'
import type { PreparedCall } from '../core/prepared-call.ts'
import type { Reconciliation, ReconciliationVerdict } from '../core/reconciliation.ts'
import type { TaskState } from '../core/task-state.ts'
import {
  clockKnownAt,
  doubtEndsAt,
  isPastDeadline,
  missesProveAbsence,
  replayWindow,
  type WindowClock,
  windowClosesAt,
} from '../core/windows.ts'
import type { Investigation } from '../store/turn.ts'
import type { AbortLike, LookupInput, Target, TargetRegistry } from '../target/target.ts'
import type { SettleWatch } from './settle-watch.ts'

export interface ReconcilerOptions {
  readonly registry: TargetRegistry
  readonly watch: SettleWatch
  readonly clock: Clock
  readonly windowClock: () => Promise<WindowClock>
  readonly leaseMs: number
  readonly random: () => number
}

interface Case {
  readonly row: TaskState
  readonly policy: TargetPolicy
  readonly target: Target
  readonly prepared: PreparedCall
  readonly input: LookupInput
  /** Present settings still name the origin and account that the call went to. */
  readonly isSameOrigin: () => boolean
  readonly asked: ReconcileRequest
}

/** A row whose lookup did not find its task: now its windows count. */
interface TimedCase extends Case {
  readonly windowClock: WindowClock
}

export interface ReconcileRequest {
  readonly signal?: AbortLike
  /** Lookups are asked, nothing else is done. */
  readonly isDryRun?: boolean
  /** Credentials are not known here: the account is taken for the same. */
  readonly isAccountUnknown?: boolean
  /** Told of each rung as it is climbed. */
  readonly onStep?: (step: LadderStep) => void
}

/** One rung of the ladder, as it was climbed. */
export interface LadderStep {
  readonly rung: 'lookup' | 'replay' | 'hold'
  /** It decides, may still decide later, or leads to the next. */
  readonly came: 'decided' | 'pending' | 'next'
  /** A short stable word. */
  readonly why: string
}

/** After this many rounds, a replay inside its window is a better question than one more lookup that proves nothing. */
const ROUNDS_BEFORE_REPLAY = 3
const NOW_MISS_SLACK_MS = 5

export function createReconciler(options: ReconcilerOptions) {
  const { registry, watch, clock, random } = options

  /** Never rejects. */
  return async function reconcile(investigation: Investigation, asked: ReconcileRequest = {}): Promise<Reconciliation> {
    const { row, prepared } = investigation
    const told = (policy: TargetPolicy, verdict: ReconciliationVerdict): Reconciliation => ({
      requestId: row.requestId,
      target: row.target,
      version: row.version,
      policy,
      verdict,
    })
    const present = registry.get(row.target)
    const frozen = registry.at(row.target, row.targetVersion, investigation.description)
    if (frozen === undefined || prepared === null) return told(NO_POLICY, hold('description_missing'))
    const policy = stricterPolicy(frozen.policy, present?.policy ?? frozen.policy)
    try {
      const current: Case = {
        row,
        policy,
        target: frozen,
        prepared,
        input: lookupInput(row, investigation.payload, prepared),
        isSameOrigin: () => asked.isAccountUnknown === true || (present ?? frozen).sameOrigin(prepared),
        asked,
      }
      return told(policy, await climb(current))
    } catch (error) {
      const evidence: Evidence = {
        phase: 'not_sent',
        error: errorText(error),
        rule: 'reconcile',
      }
      if (isPastDeadline(row, policy, clock.wallNow())) return told(policy, hold('recovery_failed', evidence))
      return told(policy, later(row, policy, clock.wallNow() + waitMs(row, policy), 'recovery_failed', evidence))
    }
  }

  async function climb(current: Case): Promise<ReconciliationVerdict> {
    const { row, policy } = current
    if (row.cancelRequested && row.taskId !== null) return cancelTask(current)
    let why = policy.key === null && policy.lookup === null ? opaqueWhy(row) : 'unproven'
    for (const rung of policy.recovery) {
      if (rung === 'hold') break
      const step = rung === 'lookup' ? await lookupRung(current) : replayRung(await timed(current))
      current.asked.onStep?.({ rung, came: step.kind, why: whyOf(step) })
      if (step.kind === 'decided') return step.verdict
      if (step.kind === 'pending') return isPastDeadline(row, policy, clock.wallNow()) ? hold('deadline') : step.verdict
      why = step.why
    }
    current.asked.onStep?.({ rung: 'hold', came: 'decided', why })
    return hold(why)
  }

  async function timed(current: Case): Promise<TimedCase> {
    return { ...current, windowClock: await options.windowClock() }
  }

  async function lookupRung(current: Case): Promise<Step> {
    const { row, policy, target, input, asked } = current
    const { lookup } = policy
    if (lookup === null) return next('no_lookup')
    // Code that goes on in this process may still make the task that the lookup does not show.
    const settledForMs = target.isRunning?.(row.requestId) === true ? 0 : watch.settledForMs(row)
    const startedAt = clock.wallNow()
    const result = await target.lookup(input, asked.signal)
    switch (result.kind) {
      case 'found':
        return decided(judgeFound(current, result))
      case 'ambiguous':
        return decided(hold('several_tasks', result.evidence))
      case 'undetermined':
        return undetermined(await timed(current), result)
      case 'miss': {
        const inTime = await timed(current)
        // Another account's listing says nothing of ours.
        return current.isSameOrigin()
          ? judgeMiss(inTime, result.evidence, settledForMs, startedAt)
          : undetermined(inTime, { kind: 'undetermined', retryAfterMs: null, evidence: result.evidence })
      }
    }
  }

  function judgeFound({ row, policy }: Case, found: LookupResult & { kind: 'found' }): ReconciliationVerdict {
    // What a lookup without the key finds may be an earlier generation's task.
    if (row.generation > 1 && policy.lookup?.dependsOnKey === false)
      return hold('found_other_generation', found.evidence)
    if (row.olderAnswer !== null && row.olderAnswer.taskId !== found.taskId)
      return hold('several_tasks', found.evidence)
    return { kind: 'adopt', taskId: found.taskId, evidence: found.evidence }
  }

  function undetermined(current: TimedCase, result: LookupResult & { kind: 'undetermined' }): Step {
    const { row, policy } = current
    const wait = Math.max(waitMs(row, policy), result.retryAfterMs ?? 0)
    const closesAt = windowClosesAt(row, policy)
    const at = clock.wallNow() + wait
    const yields =
      canReplay(current) && (row.backoffStep >= ROUNDS_BEFORE_REPLAY || (closesAt !== null && at >= closesAt))
    const reason = current.isSameOrigin() ? 'lookup_undetermined' : 'account_changed'
    return yields ? next(reason) : pending(later(row, policy, at, reason, result.evidence))
  }

  function canReplay(current: TimedCase): boolean {
    if (!current.policy.recovery.includes('replay')) return false
    const step = replayRung(current)
    return step.kind === 'decided' && step.verdict.kind === 'replay'
  }

  /** A miss counts only when the attempt was over for `settleMs` before the lookup started, and spaced from the last. */
  function judgeMiss(current: TimedCase, evidence: Evidence, settledForMs: number, startedAt: number): Step {
    const { row, policy } = current
    const lookup = policy.lookup as NonNullable<TargetPolicy['lookup']>
    // Where only the lease's end is known the call may still run: a clock that jumped can end a lease too soon.
    const settleMs = lookup.settleMs + (row.isEndObserved ? 0 : policy.timeoutMs)
    if (settledForMs < settleMs) {
      const at = clock.wallNow() + Math.min(settleMs - settledForMs + NOW_MISS_SLACK_MS, settleMs)
      return soonEnough(current, later(row, policy, at, 'miss_not_settled', evidence), at)
    }
    if (row.lastMissAt !== null && startedAt < row.lastMissAt + lookup.everyMs) {
      const at = row.lastMissAt + lookup.everyMs
      return soonEnough(current, later(row, policy, at, 'miss_too_soon', evidence), at)
    }
    if (row.misses + 1 < lookup.misses) {
      const at = clock.wallNow() + lookup.everyMs
      return soonEnough(current, { ...later(row, policy, at, 'settled_miss', evidence), missCounted: true }, at)
    }
    return decisiveMiss(current, evidence)
  }

  /** Waiting for the next lookup must not cost the replay its window. */
  function soonEnough(current: TimedCase, verdict: ReconciliationVerdict, at: number): Step {
    const closesAt = windowClosesAt(current.row, current.policy)
    return canReplay(current) && closesAt !== null && at >= closesAt ? next('window_closing') : pending(verdict)
  }

  function decisiveMiss({ row, policy, windowClock }: TimedCase, evidence: Evidence): Step {
    const until = clockKnownAt(windowClock)
    // Whether the API may have forgotten the task cannot be told by a clock that is behind.
    if (until !== null) return pending(later(row, policy, until, 'clock_behind', evidence))
    const proves = missesProveAbsence(row, policy, windowClock, row.misses + 1)
    const reason = 'settled_miss'
    if (row.cancelRequested)
      return decided(proves ? { kind: 'canceled', reason, evidence } : hold('cancel_unproven', evidence))
    if (proves) return decided({ kind: 'recall', reason, evidence })
    if (row.executed) return next('executed_without_id')
    return next(policy.lookup?.missMeans === 'hold' ? 'miss_means_hold' : 'lookup_memory_over')
  }

  function replayRung(current: TimedCase): Step {
    const { row, policy } = current
    if (policy.key === null || row.idempotencyKey === null) return next('no_key')
    if (row.cancelRequested) return next('cancel_unproven')
    if (!current.isSameOrigin()) return decided(hold('account_changed'))
    if (row.replays >= policy.key.maxReplays) return next('replays_spent')
    // The description that made the doubt may allow a longer call than leases last by now: it could never be written.
    if (policy.timeoutMs > options.leaseMs) return next('lease_shorter_than_call')
    const window = replayWindow(row, policy, current.windowClock)
    if (window.kind === 'open') return decided({ kind: 'replay', reason: row.reason ?? 'unknown' })
    if (window.kind === 'wait') return pending(later(row, policy, window.until, 'clock_behind', null))
    return next(window.kind === 'closed' ? 'key_window_closed' : 'key_window_unknown')
  }

  async function cancelTask({ row, policy, target, input, asked }: Case): Promise<ReconciliationVerdict> {
    if (!policy.canCancel || row.taskId === null) return hold('cancel_unsupported')
    if (asked.isDryRun) return { kind: 'canceled', reason: 'cancel_at_api', evidence: null }
    const result = await target.cancel({ ...input, taskId: row.taskId }, asked.signal)
    if (result.kind === 'canceled') return { kind: 'canceled', reason: 'canceled_at_api', evidence: result.evidence }
    if (isPastDeadline(row, policy, clock.wallNow())) return hold('cancel_failed', result.evidence)
    return later(row, policy, clock.wallNow() + waitMs(row, policy), 'cancel_failed', result.evidence)
  }

  function waitMs(row: TaskState, policy: TargetPolicy): number {
    const own = backoffMs(policy.retry, row.backoffStep, random())
    return policy.lookup === null ? own : Math.max(own, Math.min(policy.lookup.everyMs, policy.retry.maxMs))
  }
}

/** People tell by it what was surely called from what a copy has forgotten. */
function opaqueWhy({ reason }: TaskState): string {
  return reason === 'restored' ? reason : 'opaque'
}

type Later = ReconciliationVerdict & { kind: 'later' }

type Step =
  | { readonly kind: 'decided'; readonly verdict: ReconciliationVerdict }
  /** This rung may still decide: ask again then, until the deadline. */
  | { readonly kind: 'pending'; readonly verdict: ReconciliationVerdict }
  | { readonly kind: 'next'; readonly why: string }

function whyOf(step: Step): string {
  if (step.kind === 'next') return step.why
  return step.verdict.kind === 'adopt' ? 'found' : step.verdict.reason
}

const decided = (verdict: ReconciliationVerdict): Step => ({ kind: 'decided', verdict })
const pending = (verdict: ReconciliationVerdict): Step => ({ kind: 'pending', verdict })
const next = (why: string): Step => ({ kind: 'next', why })

function hold(reason: string, evidence: Evidence | null = null): ReconciliationVerdict {
  return { kind: 'hold', reason, evidence }
}

/** Never later than the deadline, at which it is held. */
function later(row: TaskState, policy: TargetPolicy, at: number, reason: string, evidence: Evidence | null): Later {
  return { kind: 'later', at: Math.min(at, doubtEndsAt(row, policy, at)), reason, missCounted: false, evidence }
}

function lookupInput(row: TaskState, payload: string, prepared: PreparedCall): LookupInput {
  const { requestId, logicalHash, generation, priority } = row
  return {
    payload,
    key: row.idempotencyKey,
    request: { requestId, logicalHash, generation, priority },
    prepared,
    taskId: row.taskId,
  }
}
