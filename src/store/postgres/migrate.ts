// Brings a schema to this version's in one transaction under an advisory lock; any number of processes may try at once.
import { randomBytes, randomUUID } from 'node:crypto'
import { isOnceishError, OnceishError } from '../../core/errors.ts'
import { isSetAside } from '../set-aside.ts'
import type { Database, Transaction } from './connection.ts'
import { functionsSql } from './functions.ts'
import { lockId } from './locks.ts'
import { POSTGRES_SCHEMA_VERSION, schemaSql } from './schema.ts'
import { unquoted } from './url.ts'

export interface MigrateOptions {
  /** Quoted. */
  readonly schema: string
  readonly create: boolean
  readonly now: number
  readonly beforeCommit?: () => void
  readonly committed?: () => void
}

/** @throws OnceishError STORE_NOT_FOUND, STORE_SCHEMA_NEWER, STORE_SCHEMA_OLDER */
export async function migrate(db: Database, options: MigrateOptions): Promise<void> {
  const { schema: s, create, now } = options
  const found = await db.read(async (tx) => {
    await refuseEncoding(tx, db.location)
    return versionOf(tx.query, s)
  })
  if (isSetAside(found)) await refuseGivenUp(db, s)
  refuseNewer(found, db.location)
  if (found === POSTGRES_SCHEMA_VERSION) return
  if (!create && found === 0) {
    throw new OnceishError(
      'STORE_NOT_FOUND',
      `${db.location} holds no onceish tables in schema ${s}: run "onceish migrate" or "onceish enqueue" to make them, or "onceish copy" to bring a file's there; another schema is named by ?schema=NAME`,
    )
  }
  if (!create) {
    throw new OnceishError(
      'STORE_SCHEMA_OLDER',
      `${db.location} has schema version ${found}, this onceish works on ${POSTGRES_SCHEMA_VERSION}: stop the workers of the older one, back the database up, then run "onceish migrate"`,
      { details: { version: found, known: POSTGRES_SCHEMA_VERSION } },
    )
  }
  let isMissing = false
  const made = db.transact(async (tx) => {
    await tx.query('SELECT pg_advisory_xact_lock($1::bigint)', [lockId(s, 'migrate')])
    const before = await versionOf(tx.query, s)
    refuseNewer(before, db.location)
    if (before === 0) {
      // Also where it is there, the statement asks for the right to make schemas.
      isMissing = (await tx.query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [unquoted(s)])).length === 0
      if (isMissing) await tx.query(`CREATE SCHEMA ${s}`)
      for (const text of schemaSql(s)) await tx.query(text)
    }
    if (before < POSTGRES_SCHEMA_VERSION) for (const text of functionsSql(s)) await tx.query(text)
    if (before === 0) {
      await tx.query(
        `INSERT INTO ${s}.store (id, schema_version, namespace, incarnation, high_water_at, system_identifier, timeline)
         SELECT 1, $1, $2, $3, $4, system_identifier, timeline FROM ${s}.timeline()`,
        [POSTGRES_SCHEMA_VERSION, randomBytes(16).toString('hex'), randomUUID(), now],
      )
    } else if (before < POSTGRES_SCHEMA_VERSION) {
      await tx.query(`UPDATE ${s}.store SET schema_version = $1 WHERE id = 1`, [POSTGRES_SCHEMA_VERSION])
    }
  }, options)
  await made.catch((error: unknown) => {
    throw isOnceishError(error) && error.details['postgres'] === NO_RIGHT
      ? notPermitted(error, { location: db.location, schema: s, isMissing, isOlder: found > 0 })
      : error
  })
}

const NO_RIGHT = '42501'

/** @param made.isOlder its tables are there, of an older release. */
function notPermitted(
  error: OnceishError,
  made: { location: string; schema: string; isMissing: boolean; isOlder: boolean },
): OnceishError {
  const { location, schema, isMissing, isOlder } = made
  const said = (error.cause as Error).message
  const way = isMissing
    ? `an administrator says CREATE SCHEMA ${schema} AUTHORIZATION our role (or GRANT CREATE ON DATABASE to it)`
    : isOlder
      ? `run "onceish migrate" as the role that owns the tables in schema ${schema}`
      : `let its owner run "onceish migrate", or say GRANT USAGE, CREATE ON SCHEMA ${schema} to our role`
  return new OnceishError('STORE_UNWRITABLE', `${location} does not let us make the store (${said}): ${way}`, {
    cause: error.cause,
    details: error.details,
  })
}

/** An answer of an API may hold any character, and what it said must be kept. */
async function refuseEncoding(tx: Transaction, location: string): Promise<void> {
  const [row] = await tx.query<{ encoding: string }>(`SELECT current_setting('server_encoding') AS encoding`)
  if (row?.encoding === 'UTF8' || row?.encoding === 'SQL_ASCII') return
  throw new OnceishError(
    'STORE_UNWRITABLE',
    `${location} is in ${row?.encoding}, which cannot hold every character: make a database with ENCODING 'UTF8'`,
  )
}

export async function versionOf(
  query: <R extends object>(text: string, values?: unknown[]) => Promise<R[]>,
  s: string,
): Promise<number> {
  // A look at the catalog: what "to_regclass" remembers may be of before a lock was waited for.
  const there = await query(
    `SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'store'`,
    [unquoted(s)],
  )
  if (there.length === 0) return 0
  const [row] = await query<{ schema_version: number }>(`SELECT schema_version FROM ${s}.store WHERE id = 1`)
  return row?.schema_version ?? 0
}

/** Nobody goes on with a complete copy that was taken back. */
async function refuseGivenUp(db: Database, s: string): Promise<void> {
  const [copy] = await db.read((tx) =>
    tx.query<{ source: string; at: number | null }>(
      `SELECT source, (SELECT MAX(at) FROM ${s}.events WHERE kind = '${GIVEN_UP}') AS at FROM ${s}.copies
       WHERE state = 'given_up' AND completed_at IS NOT NULL`,
    ),
  )
  if (copy === undefined) return
  const when = copy.at === null ? '' : ` at ${new Date(copy.at).toISOString()}`
  throw new OnceishError(
    'STORE_COPYING',
    `${db.location} holds a copy that was given up${when}: the store is ${copy.source} again, and a new copy of it takes another schema (?schema=NAME)`,
  )
}

/** The event of a complete copy that was taken back. */
export const GIVEN_UP = 'copy_given_up'

export function refuseNewer(version: number, location: string): void {
  if (version <= POSTGRES_SCHEMA_VERSION) return
  if (isSetAside(version)) {
    throw new OnceishError(
      'STORE_COPYING',
      `${location} holds a copy that is not complete, or that was given up: nothing works on it until the same "onceish copy" as before has finished it`,
    )
  }
  throw new OnceishError(
    'STORE_SCHEMA_NEWER',
    `${location} has schema version ${version}, this onceish knows ${POSTGRES_SCHEMA_VERSION}: install the newer onceish`,
    { details: { version, known: POSTGRES_SCHEMA_VERSION } },
  )
}
