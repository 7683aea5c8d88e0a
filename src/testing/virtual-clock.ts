// A clock that stands until it is told to go, for leases, windows and settle times of hours.
import { type Clock, systemClock } from '../core/clock.ts'

export interface VirtualClock extends Clock {
  /** Both clocks go on. */
  advance(ms: number): void
  /** The wall clock alone jumps, forward or back, as when somebody sets it. */
  jumpWall(ms: number): void
  /** Goes on by `stepMs` every few milliseconds of real time until `work` has come to an end. @returns what it came to. */
  runUntil<T>(work: Promise<T>, options?: { readonly stepMs?: number }): Promise<T>
}

const REAL_STEP_MS = 5
/** 2030-01-01: no test depends on the day it is run. */
const START = Date.UTC(2030, 0, 1)

/** A clock that stands at `startAt` (epoch ms; default 2030-01-01) until it is told to go. */
export function virtualClock(options: { readonly startAt?: number } = {}): VirtualClock {
  let wall = options.startAt ?? START
  let monotonic = 0
  const advance = (ms: number) => {
    wall += ms
    monotonic += ms
  }
  return {
    wallNow: () => wall,
    monotonicNow: () => monotonic,
    // What waits by it looks again within milliseconds: `advance` need not know who waits.
    after: (ms, wake) => systemClock.after(Math.min(ms, REAL_STEP_MS), wake),
    advance,
    jumpWall: (ms) => {
      wall += ms
    },
    runUntil: async (work, { stepMs = 1000 } = {}) => {
      const timer = setInterval(() => advance(stepMs), REAL_STEP_MS)
      try {
        return await work
      } finally {
        clearInterval(timer)
      }
    },
  }
}
