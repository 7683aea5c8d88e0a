// Enqueue inside a transaction of the caller's own, on the caller's connection: business rows and the request commit or
// vanish together. What the promise rests on is checked, since the commit is not ours.
import { statSync } from 'node:fs'
import type Database from 'better-sqlite3'
import { OnceishError } from '../../core/errors.ts'
import type { CallerConnection, EnqueueResult, NewRequest } from '../store.ts'
import { toStoreError } from './connection.ts'
import { enqueueAll } from './enqueue.ts'
import { refuseOther } from './migrate.ts'
import { ENQUEUE_STATEMENTS, type EnqueueStatements, prepareOnly } from './statements.ts'

const SYNC_FULL = 2

/** Prepared once a connection, and forgotten with it. */
const prepared = new WeakMap<CallerConnection, EnqueueStatements>()

/** @throws OnceishError CONNECTION_UNFIT, STORE_* */
export function enqueueIn(caller: CallerConnection, path: string, request: NewRequest, now: number): EnqueueResult {
  checkFit(caller, path)
  const connection = caller as Database.Database
  try {
    const sql = prepared.get(caller) ?? prepareOnly(connection, ENQUEUE_STATEMENTS)
    prepared.set(caller, sql)
    refuseOther(sql.schemaVersion.get() as number, path)
    // A savepoint: what fails in the middle must leave no half of a request in a transaction that the caller may still commit.
    const [result] = connection.transaction(() => enqueueAll(sql, [request], now, false))()
    return result as EnqueueResult
  } catch (error) {
    throw toStoreError(error, path)
  }
}

function checkFit(caller: CallerConnection, path: string): void {
  const unfit = (why: string) => new OnceishError('CONNECTION_UNFIT', `enqueueIn: ${why}; nothing was enqueued`)
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

/** By what the file is, not by how it is spelled: links and relative paths are the same file. */
function isSameFile(file: string, path: string): boolean {
  if (file === '') return false
  const [theirs, ours] = [statSync(file, { bigint: true }), statSync(path, { bigint: true })]
  return theirs.ino === ours.ino && theirs.dev === ours.dev
}
