// The two clocks of the protocol. Wall time can jump; monotonic time only speaks of this process's life.

/** Where the time comes from; a test may give its own. */
export interface Clock {
  /** UTC epoch milliseconds; can jump either way. */
  wallNow(): number
  /** Milliseconds since some fixed point of this machine's life; never goes back, goes on while the process is stopped. */
  monotonicNow(): number
  /** Calls `wake` once, `ms` from now; returns what calls it off. Who waits by it asks the clock again when it wakes. */
  after(ms: number, wake: () => void): () => void
}

export const systemClock: Clock = {
  wallNow: () => Date.now(),
  monotonicNow: () => performance.now(),
  after: (ms, wake) => {
    const timer = setTimeout(wake, ms)
    return () => clearTimeout(timer)
  },
}

export interface Instant {
  readonly wall: number
  readonly monotonic: number
}

export function instantOf(clock: Clock): Instant {
  return { wall: clock.wallNow(), monotonic: clock.monotonicNow() }
}

/** The larger of the two elapsed times: for what must not last longer than told (leases, windows). */
export function longestSince(start: Instant, now: Instant): number {
  return Math.max(now.wall - start.wall, now.monotonic - start.monotonic)
}

/** The smaller of the two elapsed times: for what must surely have lasted (settle time). */
export function shortestSince(start: Instant, now: Instant): number {
  return Math.min(now.wall - start.wall, now.monotonic - start.monotonic)
}

/** Wall time that never goes back within this process: a clock set back does not shorten what it has seen pass. */
export function latestWall(clock: Clock): () => number {
  const start = instantOf(clock)
  return () => Math.max(clock.wallNow(), start.wall + clock.monotonicNow() - start.monotonic)
}
