// Every few seconds the store is asked to keep its log within bounds; that somebody holds it back is told once, with its end.
import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import type { Store } from '../store/store.ts'

const EVERY_MS = 5000
const MIB = 1_048_576

/** @returns to be called on every round of the loop: nearly always it only reads a clock. */
export function createLogBound(store: Store, clock: Clock, log: Log): () => Promise<void> {
  let nextAt = 0
  let toldBytes = 0
  let wasHeld = false

  return async () => {
    if (clock.monotonicNow() < nextAt) return
    nextAt = clock.monotonicNow() + EVERY_MS
    const { bytes, isHeld } = await store.boundLog()
    // Whoever only passes by is gone at the next look.
    const isStaying = isHeld && wasHeld
    wasHeld = isHeld
    if (isStaying && bytes >= 2 * toldBytes) {
      toldBytes = bytes
      log.warn(
        { bytes },
        `a reader that stays, or a backup, holds back the store's write-ahead log: it has grown to ${mib(bytes)} and shrinks when that ends`,
      )
    } else if (!isHeld && toldBytes > 0) {
      toldBytes = 0
      log.info({ bytes }, `the store's write-ahead log is within bounds again: ${mib(bytes)}`)
    }
  }
}

function mib(bytes: number): string {
  return `${Math.ceil(bytes / MIB)} MiB`
}
