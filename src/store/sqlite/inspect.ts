// Looks at a SQLite store from outside. Nothing is opened but by SQLite itself: closing a descriptor of one's own would drop
// the locks that this process holds on the file.
import { constants } from 'node:fs'
import { access, realpath, stat, statfs } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import Database from 'better-sqlite3'
import { isOnceishError } from '../../core/errors.ts'
import type {
  DatabaseFacts,
  DatabaseInspection,
  FileFacts,
  FolderFacts,
  InspectOptions,
  SpillFacts,
  StoreInspection,
  WorkFacts,
} from '../inspection.ts'
import type { StoreOrigin } from '../origin.ts'
import { spillFacts } from '../spill.ts'
import { ownFiles } from './backup.ts'
import { createCallGate } from './call-gate.ts'
import { type Connection, toStoreError } from './connection.ts'
import { checkpoint, LOG_BOUND_BYTES, logBytes } from './log-bound.ts'
import { readSchemaVersion, SCHEMA_VERSION } from './migrate.ts'
import { readFacts } from './queries.ts'
import { type TaskStateRow, toTaskState } from './rows.ts'
import { refuseSetAside } from './set-aside.ts'
import { prepareStatements } from './statements.ts'
import { storeStatus } from './store-status.ts'
import { descriptionOf } from './turn-context.ts'

/** Beyond it, looking at every page takes more than a few seconds. */
const QUICK_CHECK_BYTES = 256 * 1_048_576
const BUSY_TIMEOUT_MS = 1000
const DOUBT_ROWS = 1000

export async function inspectSqlite(path: string, options: InspectOptions): Promise<StoreInspection> {
  const absolute = await realpath(path).catch(() => resolve(path))
  const files = await Promise.all(ownFiles(absolute).map(fileFacts))
  return {
    path: absolute,
    folder: await folderFacts(dirname(absolute)),
    files: files.filter((file) => file !== null),
    engine: `SQLite ${sqliteVersion()}`,
    database: databaseOf(absolute, files[0] ?? null, options),
  }
}

/** Where we may not write, opening it would leave a log of ours that its owner cannot use. */
function databaseOf(path: string, file: FileFacts | null, options: InspectOptions): DatabaseInspection {
  if (file === null) return { kind: 'missing' }
  if (file.isWritable) return inspectDatabase(path, options)
  return { kind: 'unreadable', code: 'STORE_UNWRITABLE', message: `${path} is not ours to write: it was not opened` }
}

async function fileFacts(path: string): Promise<FileFacts | null> {
  const found = await stat(path).catch(() => null)
  return found === null ? null : { path, mode: found.mode, bytes: found.size, isWritable: await isWritable(path) }
}

async function folderFacts(path: string): Promise<FolderFacts | null> {
  try {
    const [{ mode }, { type, bavail, bsize }] = await Promise.all([stat(path), statfs(path)])
    return { path, mode, isWritable: await isWritable(path), fileSystemType: type, freeBytes: bavail * bsize }
  } catch {
    return null // not there, or not ours to look into: opening the database says more
  }
}

async function isWritable(path: string): Promise<boolean> {
  return access(path, constants.W_OK).then(
    () => true,
    () => false,
  )
}

function sqliteVersion(): string {
  const memory = new Database(':memory:')
  const version = memory.prepare('SELECT sqlite_version()').pluck().get() as string
  memory.close()
  return version
}

function inspectDatabase(path: string, options: InspectOptions): DatabaseInspection {
  let db: Connection | null = null
  try {
    db = new Database(path, { fileMustExist: true, timeout: BUSY_TIMEOUT_MS })
    const schemaVersion = readSchemaVersion(db)
    refuseSetAside(db, schemaVersion, path)
    return schemaVersion === 0
      ? { kind: 'empty' }
      : { kind: 'read', ...databaseFacts(db, path, schemaVersion, options) }
  } catch (error) {
    const told = toStoreError(error, path)
    return {
      kind: 'unreadable',
      code: isOnceishError(told) ? told.code : 'UNEXPECTED',
      message: (told as Error).message,
    }
  } finally {
    db?.close()
  }
}

function databaseFacts(db: Connection, path: string, schemaVersion: number, options: InspectOptions): DatabaseFacts {
  const number = (name: string) => db.pragma(name, { simple: true }) as number
  db.pragma('synchronous = FULL')
  const FULL = 2
  const pageBytes = number('page_size')
  const bytes = number('page_count') * pageBytes
  const journalMode = String(db.pragma('journal_mode', { simple: true }))
  return {
    schemaVersion,
    knownSchemaVersion: SCHEMA_VERSION,
    journalMode,
    isSynced: number('synchronous') === FULL,
    clockAheadMs: otherwiseNull(() => readFacts(prepareStatements(db)).clockAheadMs) ?? 0,
    highWaterAt: db.prepare('SELECT high_water_at FROM store WHERE id = 1').pluck().get() as number,
    origin: schemaVersion === SCHEMA_VERSION ? otherwiseNull(() => inspectOrigin(db, path)) : null,
    newestRowAt: otherwiseNull(() => newestRowAt(db)),
    bytes,
    freeBytes: number('freelist_count') * pageBytes,
    log: { bytes: logBytes(path), boundBytes: LOG_BOUND_BYTES, isHeld: journalMode === 'wal' && isLogHeld(db) },
    integrity: integrityOf(db, bytes, options.isFull),
    spills: otherwiseNull(() => spillsOf(db, path)) ?? [],
    work: schemaVersion === SCHEMA_VERSION ? otherwiseNull(() => workFacts(db)) : null,
  }
}

/** What damage does to one answer must not hide the others; the integrity check names it. */
function otherwiseNull<T>(read: () => T): T | null {
  try {
    return read()
  } catch (error) {
    if (error instanceof Database.SqliteError) return null
    throw error
  }
}

function inspectOrigin(db: Connection, path: string): StoreOrigin {
  return createCallGate(prepareStatements(db), path).origin()
}

function spillsOf(db: Connection, path: string): SpillFacts[] {
  return spillFacts({ storePath: path, incarnation: readFacts(prepareStatements(db)).incarnation })
}

function isLogHeld(db: Connection): boolean {
  return otherwiseNull(() => checkpoint(db, 'PASSIVE')) === false
}

function newestRowAt(db: Connection): number | null {
  const newest = `SELECT MAX(at) FROM (
    SELECT * FROM (SELECT created_at AS at FROM requests ORDER BY request_id DESC LIMIT 100)
    UNION ALL SELECT * FROM (SELECT updated_at AS at FROM task_state ORDER BY request_id DESC LIMIT 100)
    UNION ALL SELECT * FROM (SELECT at FROM events ORDER BY event_id DESC LIMIT 100))`
  return db.prepare(newest).pluck().get() as number | null
}

function integrityOf(db: Connection, bytes: number, isFull: boolean): DatabaseFacts['integrity'] {
  if (!isFull && bytes > QUICK_CHECK_BYTES) return { kind: 'skipped', boundBytes: QUICK_CHECK_BYTES }
  try {
    const found = String(db.pragma(isFull ? 'integrity_check(1)' : 'quick_check(1)', { simple: true }))
    return found === 'ok' ? { kind: 'ok' } : { kind: 'damaged', found }
  } catch (error) {
    if (!(error instanceof Database.SqliteError)) throw error
    return { kind: 'damaged', found: error.message }
  }
}

function workFacts(db: Connection): WorkFacts {
  const sql = prepareStatements(db)
  return db.transaction(() => {
    const rows = sql.doubtRows.all({ limit: DOUBT_ROWS }) as TaskStateRow[]
    const doubt = rows.map((row) => {
      return { row: toTaskState(row), description: descriptionOf(sql, row.target, row.target_version) }
    })
    const changes = db.prepare('SELECT target, MAX(updated_at) FROM task_state GROUP BY target').raw().all()
    return { status: storeStatus(sql), doubt, lastChangeAt: Object.fromEntries(changes as [string, number][]) }
  })()
}
