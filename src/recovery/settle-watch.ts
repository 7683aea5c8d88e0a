// How long this process has watched an attempt be over. A restart watches anew: what a dead process saw proves nothing.
import { type Clock, type Instant, instantOf, shortestSince } from '../core/clock.ts'
import type { TaskState } from '../core/task-state.ts'

export interface SettleWatch {
  /**
   * The smaller of the wall time since the attempt's end and the monotonic time that this process has watched the row; in whole
   * milliseconds, as instants are stored.
   */
  settledForMs(row: TaskState): number
}

const MAX_WATCHED = 100_000

export function createSettleWatch(clock: Clock): SettleWatch {
  const watched = new Map<number, { readonly token: string; readonly since: Instant }>()
  return {
    settledForMs: (row) => {
      const now = instantOf(clock)
      const token = `${row.attempt}:${row.nonce}:${row.endedAt}`
      const known = watched.get(row.requestId)
      if (known?.token !== token) {
        watched.delete(row.requestId)
        if (watched.size >= MAX_WATCHED) watched.delete(watched.keys().next().value as number) // it only waits again
        watched.set(row.requestId, { token, since: now })
        return 0
      }
      return Math.floor(Math.min(now.wall - (row.endedAt ?? now.wall), shortestSince(known.since, now)))
    },
  }
}
