// One better-sqlite3 connection, set up so that a commit is on disk, and the words for what can go wrong with it.
import { closeSync, existsSync, openSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { invariant, OnceishError } from '../../core/errors.ts'

import { CHECKPOINT_PAGES, LOG_BOUND_BYTES } from './log-bound.ts'

export type Connection = Database.Database

// Long enough for a neighbour's turn, short enough that the event loop is not held; beyond it the whole transaction is retried.
const BUSY_TIMEOUT_MS = 200
const OPEN_TRIES = 200

/**
 * Opens the file (0600 where it is created) with WAL and synchronous=FULL, and reads both back.
 * @throws OnceishError STORE_NOT_FOUND, STORE_UNWRITABLE, STORE_NOT_A_DATABASE, STORE_JOURNAL_MODE, STORE_BUSY
 */
export async function connect(path: string, options: { create: boolean }): Promise<Connection> {
  if (!existsSync(path)) {
    if (!options.create) {
      throw new OnceishError(
        'STORE_NOT_FOUND',
        `no database at ${path}: run "onceish migrate" or "onceish enqueue" to create it`,
      )
    }
    createPrivately(path)
  }
  const connection = openFile(path)
  try {
    connection.pragma(`busy_timeout = ${BUSY_TIMEOUT_MS}`)
    await setJournalMode(connection, path)
    connection.pragma('synchronous = FULL')
    const FULL = 2
    invariant(connection.pragma('synchronous', { simple: true }) === FULL, 'synchronous=FULL was not taken')
    connection.pragma(`journal_size_limit = ${LOG_BOUND_BYTES}`)
    connection.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
    connection.pragma('temp_store = MEMORY')
    return connection
  } catch (error) {
    connection.close()
    throw toStoreError(error, path)
  }
}

/** SQLite gives its -wal and -shm files the mode of the database, so the file is made before SQLite sees it. */
function createPrivately(path: string): void {
  try {
    closeSync(openSync(path, 'a', 0o600))
  } catch (error) {
    throw new OnceishError('STORE_UNWRITABLE', `cannot create ${path}: ${(error as Error).message}`, { cause: error })
  }
}

function openFile(path: string): Connection {
  try {
    return new Database(path)
  } catch (error) {
    throw toStoreError(error, path)
  }
}

/** Switching a fresh file to WAL needs it alone: others that start at the same moment are waited for. */
async function setJournalMode(connection: Connection, path: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      const mode = connection.pragma('journal_mode = WAL', { simple: true })
      if (mode === 'wal') return
      throw new OnceishError(
        'STORE_JOURNAL_MODE',
        `${path} stays in journal mode "${String(mode)}" instead of WAL: put it on a local file system (network and some virtual ones cannot hold it)`,
      )
    } catch (error) {
      if (!isBusy(error) || tries >= OPEN_TRIES) throw error
      await delay(5 + Math.random() * 20)
    }
  }
}

export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error)
  return code.startsWith('SQLITE_BUSY') || code === 'SQLITE_LOCKED' || code === 'SQLITE_PROTOCOL'
}

/** What was written last may be on disk or not, and a second try proves nothing. */
export function isSyncFailure(error: unknown): boolean {
  const code = sqliteCode(error)
  return code === 'SQLITE_IOERR_FSYNC' || code === 'SQLITE_IOERR_DIR_FSYNC'
}

/** SQLite's own code, or '' for another error. */
function sqliteCode(error: unknown): string {
  return error instanceof Database.SqliteError ? error.code : ''
}

/** Our error for one of SQLite's; others pass as they are. */
export function toStoreError(error: unknown, path: string): unknown {
  const code = sqliteCode(error)
  if (code === '') return error
  const fail = (ours: ConstructorParameters<typeof OnceishError>[0], message: string) =>
    new OnceishError(ours, message, { cause: error, details: { sqlite: code } })
  if (isBusy(error)) return fail('STORE_BUSY', `${path} stays locked by another process: end it, or try again`)
  if (code === 'SQLITE_NOTADB')
    return fail('STORE_NOT_A_DATABASE', `${path} is no SQLite database; it was left as it is`)
  if (code.startsWith('SQLITE_CORRUPT')) {
    return fail(
      'STORE_CORRUPT',
      `${path} is damaged (${(error as Error).message}); it was left as it is: restore a backup`,
    )
  }
  if (code === 'SQLITE_FULL') return fail('STORE_FULL', `no space left for ${path}: free some; nothing was lost`)
  if (isSyncFailure(error)) {
    return fail(
      'STORE_SYNC_FAILED',
      `${path} could not be synced to disk: what was written last may be gone; check the disk, then start again`,
    )
  }
  if (code.startsWith('SQLITE_IOERR')) {
    return fail('STORE_IO_FAILED', `writing ${path} failed (${code}): check the disk; the transaction was rolled back`)
  }
  if (code.startsWith('SQLITE_READONLY') || code.startsWith('SQLITE_CANTOPEN') || code === 'SQLITE_PERM') {
    return fail(
      'STORE_UNWRITABLE',
      `cannot open ${path} for writing (${(error as Error).message}): check the folder and its permissions`,
    )
  }
  return error
}
