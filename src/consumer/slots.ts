// How many calls may begin. Each target may have as many in flight as the worker's concurrency says, and so may all together,
// as long as none is slow: a call that has run for a quarter of a second no longer takes a slot, so that a target that hangs for its whole
// timeout leaves the others theirs.
import type { Clock } from '../core/clock.ts'
import type { Standing } from '../store/turn.ts'

/** One call in flight. */
export interface Slot {
  readonly target: string
  /** Monotonic ms. */
  readonly since: number
}

export interface Slots {
  take(target: string): Slot
  release(slot: Slot): void
  /** How many more calls may begin, over all targets; 0 or less: none. */
  free(): number
  standingOf(target: string): Standing
  /** In how many ms a call becomes slow by the mere passing of time, and so frees a slot; infinity: none does. */
  nextFreeInMs(): number
}

const SLOW_MS = 250
/** So that sockets and memory have a bound, however many targets hang: this many times the concurrency. */
const MOST_IN_FLIGHT = 4

export function createSlots(clock: Clock, concurrency: number): Slots {
  const ofTargets = new Map<string, { inFlight: number; lastTaken: number }>()
  let takenSoFar = 0
  /** In the order in which they were taken: the slow ones come first. */
  const quick = new Set<Slot>()
  let size = 0
  /** One at a time is one at a time. */
  const mostInFlight = concurrency === 1 ? 1 : concurrency * MOST_IN_FLIGHT

  function dropSlow(): void {
    const until = clock.monotonicNow() - SLOW_MS
    for (const slot of quick) {
      if (slot.since > until) return
      quick.delete(slot)
    }
  }

  return {
    take: (target) => {
      const slot = { target, since: clock.monotonicNow() }
      quick.add(slot)
      size++
      ofTargets.set(target, { inFlight: (ofTargets.get(target)?.inFlight ?? 0) + 1, lastTaken: ++takenSoFar })
      return slot
    },
    release: (slot) => {
      quick.delete(slot)
      size--
      const ofTarget = ofTargets.get(slot.target)
      if (ofTarget !== undefined) ofTarget.inFlight--
    },
    free: () => {
      dropSlow()
      return Math.min(concurrency - quick.size, mostInFlight - size)
    },
    standingOf: (target) => {
      const { inFlight, lastTaken } = ofTargets.get(target) ?? { inFlight: 0, lastTaken: 0 }
      return { room: concurrency - inFlight, lastTaken }
    },
    nextFreeInMs: () => {
      dropSlow()
      const [oldest] = quick
      return oldest === undefined || size >= mostInFlight
        ? Number.POSITIVE_INFINITY
        : oldest.since + SLOW_MS - clock.monotonicNow()
    },
  }
}
