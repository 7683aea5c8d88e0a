// What a dead process has left on the disk, read without the product.
import { existsSync } from 'node:fs'
import Database from 'better-sqlite3'

export interface Files {
  readonly schemaVersion: number
  readonly isWhole: boolean
  /** The state of the one request in the copy; null: no file has the copy's name. */
  readonly copy: string | null
}

export function filesOf(store: string, backup: string): Files {
  return {
    schemaVersion: ask(store, 'SELECT schema_version FROM store') as number,
    isWhole: ask(store, 'PRAGMA integrity_check') === 'ok',
    copy: existsSync(backup) ? (ask(backup, 'SELECT state FROM request_overview') as string) : null,
  }
}

function ask(path: string, sql: string): unknown {
  const db = new Database(path, { fileMustExist: true })
  try {
    return db.prepare(sql).pluck().get()
  } finally {
    db.close()
  }
}
