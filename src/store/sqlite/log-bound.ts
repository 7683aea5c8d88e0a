// Keeps the -wal file within its bound. SQLite reuses it once a checkpoint has copied all of it, which a reader that stays
// prevents: then nothing can be done but to say so, and to shrink the file when the reader has gone. Never waits for anybody.
import { statSync } from 'node:fs'
import type { LogSize } from '../upkeep.ts'
import type { Connection } from './connection.ts'

/** Also what SQLite itself shrinks the file to when it begins it anew. */
export const LOG_BOUND_BYTES = 64 * 1_048_576

/**
 * 16 MiB, where SQLite's own is 4: hashes lie scattered, so that a thousand of them fill the log with as many pages, which are
 * written twice as often where each is copied back at once. More would hold the event loop for longer at each copying.
 */
export const CHECKPOINT_PAGES = 4000

export function logBytes(path: string): number {
  return statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0
}

/** One look at the file's size, and nothing else while it is within the bound. */
export function boundLog(db: Connection, path: string, boundBytes: number): LogSize {
  if (logBytes(path) <= boundBytes) return { bytes: logBytes(path), isHeld: false }
  const isWhole = checkpoint(db, 'PASSIVE')
  // The writers' lock is taken only where nothing is left to copy under it.
  const isShrunk = isWhole && withoutWaiting(db, () => checkpoint(db, 'TRUNCATE'))
  return { bytes: logBytes(path), isHeld: !isShrunk }
}

/** @returns false where somebody's reading or writing keeps it from the end. */
export function checkpoint(db: Connection, mode: 'PASSIVE' | 'TRUNCATE'): boolean {
  const [row] = db.pragma(`wal_checkpoint(${mode})`) as { busy: number; log: number; checkpointed: number }[]
  return row !== undefined && row.busy === 0 && row.checkpointed >= row.log
}

function withoutWaiting<T>(db: Connection, work: () => T): T {
  const timeoutMs = db.pragma('busy_timeout', { simple: true }) as number
  db.pragma('busy_timeout = 0')
  try {
    return work()
  } finally {
    db.pragma(`busy_timeout = ${timeoutMs}`)
  }
}
