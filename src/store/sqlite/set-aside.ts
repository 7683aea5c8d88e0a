// Says of a file that was copied to another store where it went.
import { OnceishError } from '../../core/errors.ts'
import type { SetAside } from '../copying.ts'
import { isSetAside } from '../set-aside.ts'
import type { Connection } from './connection.ts'

export const COPIED_EVENT = 'store_copied'

export function readSetAside(db: Connection): SetAside | null {
  const row = db
    .prepare('SELECT at, detail FROM events WHERE kind = ? ORDER BY event_id DESC LIMIT 1')
    .get(COPIED_EVENT) as { at: number; detail: string } | undefined
  return row === undefined ? null : { ...(JSON.parse(row.detail) as Omit<SetAside, 'at'>), at: row.at }
}

/** @throws OnceishError STORE_COPIED */
export function refuseSetAside(db: Connection, version: number, path: string): void {
  if (!isSetAside(version)) return
  const { to = 'another store', at = 0 } = readSetAside(db) ?? {}
  throw new OnceishError(
    'STORE_COPIED',
    `${path} was handed over to ${to} at ${new Date(at).toISOString()}, and nothing works on it any more: set "store" to that one. Where the copy broke off, the same "onceish copy" goes on; with --undo this file is worked again`,
    { details: { to, at } },
  )
}
