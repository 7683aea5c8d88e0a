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

/** Two readings of one clock may differ by less. */
const CLOCK_SET_MS = 1000

/** The wall clock has been set back since it showed `at`, so that no time can be counted from there. Both are UTC epoch ms. */
export function wasSetBack(at: number, now: number): boolean {
  return now < at - CLOCK_SET_MS
}

/** A difference between the two clocks that is no setting. */
export const CLOCK_NOISE_MS = 100

/**
 * Wall time that never goes back: it follows the wall clock forward, and goes on at least as fast as the monotonic one. How far
 * it is ahead of a wall clock that was set back is kept in the store, so that it outlives the process that saw it.
 */
export interface SteadyTime {
  /** UTC epoch ms, whole. */
  now(): number
  /** What the store says of its time. */
  hear(told: ToldTime): void
  /** The wall clock was set since, and the store does not know: it must before this process dies. */
  isNews(): boolean
}

export interface ToldTime {
  /** By how much it is ahead of the wall: what another process has seen, or what was just written. */
  readonly clockAheadMs: number
  /** UTC epoch ms: the latest steady time at which somebody called. */
  readonly highWaterAt: number
}

export function steadyTime(clock: Clock): SteadyTime {
  let last = instantOf(clock)
  let heard = { aheadMs: 0, at: last.wall }
  const advance = (atLeast: number) => {
    const now = instantOf(clock)
    last = {
      wall: Math.max(now.wall, last.wall + now.monotonic - last.monotonic, atLeast),
      monotonic: now.monotonic,
    }
    return last.wall
  }
  return {
    // Rounded for the caller alone: what is cut off at each question would slow the clock down.
    now: () => Math.floor(advance(0)),
    hear: ({ clockAheadMs, highWaterAt }) => {
      const now = advance(0)
      const isKnown = Math.abs(clockAheadMs - heard.aheadMs) <= CLOCK_NOISE_MS
      // A process that came after the wall clock was set forward took it for even further ahead, and may have called by that
      // time: seen by its calls, as long as this one looked often enough to tell them from those of its own time.
      const mayBeUsed = highWaterAt > now + CLOCK_NOISE_MS || now - heard.at >= clockAheadMs
      heard = { aheadMs: clockAheadMs, at: now }
      // Otherwise a wall clock that has been set forward since is not taken for even further ahead.
      if (!isKnown || mayBeUsed) advance(clock.wallNow() + clockAheadMs)
    },
    // Twice the noise: what the store is told is asked by its own pair of instants.
    isNews: () => Math.abs(advance(0) - clock.wallNow() - heard.aheadMs) > 2 * CLOCK_NOISE_MS,
  }
}
