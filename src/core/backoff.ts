// Backoff with jitter, as pure functions.

export interface BackoffPolicy {
  readonly initialMs: number
  readonly maxMs: number
}

export interface RetryPolicy extends BackoffPolicy {
  /** Calls, the first included. */
  readonly maxAttempts: number
}

/** The longest wait that `backoffMs` can give for this step (0 is the first retry). */
function longestBackoffMs(policy: BackoffPolicy, step: number): number {
  return Math.min(policy.maxMs, policy.initialMs * 2 ** Math.min(step, 40))
}

/** Half of the step's wait, plus up to another half: never near zero, never all at once. `random` is in [0, 1). */
export function backoffMs(policy: BackoffPolicy, step: number, random: number): number {
  const longest = longestBackoffMs(policy, step)
  return Math.ceil(longest / 2 + (longest / 2) * random)
}

/** A told wait is a floor: jitter only adds, at most a tenth and at most a minute. */
export function spreadMs(toldMs: number, random: number): number {
  return Math.ceil(toldMs + Math.min(toldMs / 10, 60_000) * random)
}

/** The longest that all attempts with their backoffs can take. */
export function retryHorizonMs(retry: RetryPolicy, timeoutMs: number): number {
  let horizonMs = retry.maxAttempts * timeoutMs
  for (let step = 0; step < retry.maxAttempts - 1; step++) horizonMs += longestBackoffMs(retry, step)
  return horizonMs
}
