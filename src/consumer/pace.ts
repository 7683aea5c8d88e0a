// How soon a worker with nothing to do looks whether another process has committed. Each look wakes the machine, which costs more
// than the look: soon where something happened lately, and seldom where it has been quiet for long.
import type { Clock } from '../core/clock.ts'

export interface Pace {
  /** There was something to do. */
  noteWork(): void
  /** A quarter of the time for which there has been nothing, within bounds. */
  nextLookMs(): number
}

const SOONEST_MS = 5
const LATEST_MS = 40

export function createPace(clock: Clock): Pace {
  let workedAt = clock.monotonicNow()
  return {
    noteWork: () => {
      workedAt = clock.monotonicNow()
    },
    nextLookMs: () => Math.min(LATEST_MS, Math.max(SOONEST_MS, Math.ceil((clock.monotonicNow() - workedAt) / 4))),
  }
}
