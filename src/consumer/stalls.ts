// Notices that this process stood still: something that was to be over by now ended much later. It needs no timer of its own.
import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import type { Counting } from './counters.ts'

export interface StallWatch {
  /** Begins to wait: the next round should come within `ms`. */
  expectWithin(ms: number): void
  /** A round has come. */
  noteRound(): void
}

/** @param limitMs what a lease can spare. */
export function createStallWatch(options: {
  readonly clock: Clock
  readonly limitMs: number
  readonly log: Log
  readonly counters: Counting
}): StallWatch {
  const { clock, limitMs, log, counters } = options
  let dueAt: number | null = null
  return {
    expectWithin: (ms) => {
      dueAt = clock.monotonicNow() + ms
    },
    noteRound: () => {
      const lateMs = dueAt === null ? 0 : Math.round(clock.monotonicNow() - dueAt)
      dueAt = null
      if (lateMs < limitMs) return
      counters.stalls++
      log.warn(
        { ms: lateMs },
        `this process stood still for ${lateMs} ms (its event loop blocked, stopped or suspended): what lost its lease meanwhile is looked into by others`,
      )
    },
  }
}
