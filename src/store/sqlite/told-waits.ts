// What an answer does to the limits of its target: a wait that the API told stops everybody, and a call that surely never left
// gives back what its claim was charged.
import { spreadMs } from '../../core/backoff.ts'
import { type TargetPolicy, waitScopeOf } from '../../core/policy.ts'
import type { AttemptResult } from '../../core/settlement.ts'
import type { TaskState } from '../../core/task-state.ts'
import { tokenLeft } from '../../core/token-bucket.ts'
import { noteTargetEvent } from './events.ts'
import type { Turn } from './turn-context.ts'

/**
 * Told from the end of the call on, so that an answer that is read late pauses nobody for what is over. The jitter only adds: others
 * of the same account, in stores of their own, were told the same instant.
 */
export function noteToldWait(
  { sql, input, word, stops }: Turn,
  { target, outcome, endedAt }: AttemptResult,
  policy: TargetPolicy,
): void {
  if (outcome.kind !== 'not_executed' || outcome.limitedBy === undefined || outcome.retryAfterMs === null) return
  const leftMs = Math.min(endedAt, word.now) + outcome.retryAfterMs - word.now
  if (leftMs <= 0) return
  const { scope, name } = waitScopeOf(target, policy)
  const until = word.now + spreadMs(leftMs, input.random())
  const told = {
    scope,
    name,
    now: word.now,
    until,
    told_until: word.now + leftMs,
    told_by: outcome.limitedBy,
    ramp_ms: policy.rateLimit.rampMs,
  }
  const wasWaiting = sql.isWaiting.get(told) === 1
  if (sql.beginWait.run(told).changes === 0 || wasWaiting) return
  stops.push({ target, kind: 'told_to_wait', why: outcome.limitedBy, until })
  const event = { kind: 'told_to_wait', reason: outcome.limitedBy, detail: { scope, name, until } }
  noteTargetEvent(sql, target, event, word)
}

/** Nothing left this machine, which is surely no call to the API. */
export function returnPermits(
  { sql, input, steadyAt }: Turn,
  { target, state, attempt, updatedAt }: TaskState,
  unsent: AttemptResult,
  { limits }: TargetPolicy,
): void {
  // The claim is the last that has changed a row whose call runs; of others, and of attempts before it, nobody knows when they were
  // charged.
  if (state !== 'invoking' || attempt !== unsent.attempt) return
  // By the clock that never goes back: one that was set back would make it look as if it had just been taken.
  const sinceMs = steadyAt - updatedAt
  if (limits.rate !== null) sql.returnTargetToken.run(tokenLeft(limits.rate, sinceMs), target)
  const shared = limits.bucket === undefined ? undefined : input.claim.buckets[limits.bucket]?.rate
  if (shared) sql.returnBucketToken.run(tokenLeft(shared, sinceMs), limits.bucket)
  sql.returnBegun.run({ target, claimed_at: updatedAt })
}
