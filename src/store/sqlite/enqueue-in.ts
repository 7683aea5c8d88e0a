// Enqueue inside a transaction of the caller's own, on the caller's connection: business rows and the request commit or
// vanish together. What the promise rests on is checked, since the commit is not ours.
import { realpathSync } from 'node:fs'
import type Database from 'better-sqlite3'
import { OnceishError } from '../../core/errors.ts'
import type { CallerClient, CallerConnection, EnqueueResult, NewRequest } from '../store.ts'
import { toStoreError } from './connection.ts'
import { enqueueAll } from './enqueue.ts'
import { refuseOther } from './migrate.ts'
import { refuseSetAside } from './set-aside.ts'
import { ENQUEUE_STATEMENTS, type EnqueueStatements, prepareOnly } from './statements.ts'

const SYNC_FULL = 2

/** Prepared once a connection, and forgotten with it. */
const prepared = new WeakMap<CallerConnection, EnqueueStatements>()

/** @throws OnceishError CONNECTION_UNFIT, STORE_* */
export function enqueueIn(
  given: CallerConnection | CallerClient,
  path: string,
  request: NewRequest,
  now: number,
): EnqueueResult {
  const caller = given as CallerConnection
  checkFit(caller, path)
  const connection = caller as Database.Database
  try {
    refuseShadows(connection)
    const sql = prepared.get(caller) ?? prepareOnly(connection, ENQUEUE_STATEMENTS)
    prepared.set(caller, sql)
    const version = sql.schemaVersion.get() as number
    refuseSetAside(connection, version, path)
    refuseOther(version, path)
    // A savepoint: what fails in the middle must leave no half of a request in a transaction that the caller may still commit.
    const [result] = connection.transaction(() => enqueueAll(sql, [request], now, false))()
    return result as EnqueueResult
  } catch (error) {
    if (error instanceof TypeError) throw unfit(`the connection cannot be used now: ${error.message}`, error)
    throw toStoreError(error, path)
  }
}

function checkFit(caller: CallerConnection, path: string): void {
  if (typeof caller?.prepare !== 'function' || typeof caller.transaction !== 'function') {
    throw unfit('the connection is no better-sqlite3 Database')
  }
  if (!caller.open) throw unfit('the connection is closed')
  if (caller.readonly) throw unfit('the connection is read-only')
  if (!caller.inTransaction) {
    throw unfit('the connection is in no transaction: call it inside db.transaction(...).immediate(), or use enqueue')
  }
  const file = mainFileOf(caller)
  if (!isSameFile(file, path)) throw unfit(`the connection is to ${file || 'no file'}, the store is ${path}`)
  if (Number(caller.pragma('synchronous', { simple: true })) < SYNC_FULL) {
    throw unfit(`the connection does not sync its commits: set db.pragma('synchronous = FULL') when you open it`)
  }
}

function mainFileOf(caller: CallerConnection): string {
  const databases = caller.pragma('database_list') as { name: string; file: string }[]
  return databases.find(({ name }) => name === 'main')?.file ?? ''
}

/**
 * By its real path, however it was spelled: SQLite names its log after the path, so one file under two names (a hard link) has
 * two logs, and what is committed to one is lost to the other.
 */
function isSameFile(file: string, path: string): boolean {
  try {
    return file !== '' && realpathSync(file) === realpathSync(path)
  } catch {
    return false // one of them is gone
  }
}

/** Temporary tables and triggers of these names would stand before ours. */
function refuseShadows(caller: Database.Database): void {
  const shadows = caller
    .prepare(
      `SELECT name FROM temp.sqlite_schema WHERE tbl_name IN (SELECT name FROM main.sqlite_schema WHERE type = 'table')`,
    )
    .pluck()
    .all()
  if (shadows.length > 0) {
    throw unfit(`it has temporary tables or triggers in the place of the store's: ${shadows.join(', ')}`)
  }
}

function unfit(why: string, cause?: unknown): OnceishError {
  return new OnceishError('CONNECTION_UNFIT', `enqueueIn: ${why}; nothing was enqueued`, { cause })
}
