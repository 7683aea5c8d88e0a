// Enqueue inside a transaction of the caller's own, on the caller's node-postgres client: business rows and the request commit or
// vanish together. What the promise rests on is checked, since the commit is not ours.
import { isOnceishError, OnceishError } from '../../core/errors.ts'
import type { CallerClient, EnqueueResult } from '../store.ts'
import type { Database, Transaction } from './connection.ts'
import { CHANGED_STATE } from './save-function.ts'
import { codeOf, isInTheWay, toStoreError } from './server-errors.ts'

export interface EnqueueInOptions {
  readonly db: Database
  /** Quoted. */
  readonly schema: string
  /** Loads, runs the rules and saves, in a transaction that is not ours. */
  enqueue(tx: Transaction): Promise<EnqueueResult>
}

/** Which server, which branch of its history, which of its databases. */
interface Place {
  readonly system_identifier: string
  readonly timeline: string
  readonly database: string
}

interface CallerFacts {
  readonly read_only: string
  readonly synchronous_commit: string
  readonly isolation: string
  readonly encoding: string
  readonly has_store: boolean
  readonly database: string
}

/** Waits for the standby too, where there is one. */
const SYNCED: ReadonlySet<string> = new Set(['on', 'remote_apply'])
/** Somebody else committed the same request, or changed what it is put behind: seen by the next try. */
const AGAIN: ReadonlySet<string> = new Set(['23505', CHANGED_STATE])
const TRIES = 20

/** Where the store is, is asked once, and again where a caller seems to be elsewhere: after a failover both are. */
export function createPlaceCheck(db: Database, schema: string): (tx: Transaction, database: string) => Promise<void> {
  let own: Promise<Place> | null = null
  const ask = () => db.read((tx) => placeOf(tx, schema))
  return async (tx, database) => {
    const theirs = await placeOf(tx, schema)
    own ??= ask()
    const known = await own.catch(() => null)
    if (known !== null && isSame(known, theirs)) return
    own = ask()
    if (isSame(await own, theirs)) return
    throw unfit(`the client is connected to database "${database}" of another server than ${db.location}, the store's`)
  }
}

/** One after the other on each client: their savepoints must not cross. */
const lastOf = new WeakMap<CallerClient, Promise<unknown>>()

/** @throws OnceishError CONNECTION_UNFIT, STORE_* */
export function enqueueIn(
  client: CallerClient,
  options: EnqueueInOptions,
  checkPlace: (tx: Transaction, database: string) => Promise<void>,
): Promise<EnqueueResult> {
  const before = lastOf.get(client) ?? Promise.resolve()
  const made = before.catch(() => {}).then(() => enqueueNow(client, options, checkPlace))
  lastOf.set(client, made)
  return made
}

async function enqueueNow(
  client: CallerClient,
  { db, schema, enqueue }: EnqueueInOptions,
  checkPlace: (tx: Transaction, database: string) => Promise<void>,
): Promise<EnqueueResult> {
  const tx = speakFor(client)
  for (let tries = 1; ; tries++) {
    await begin(tx, db.location)
    let isolation = ''
    try {
      ;({ isolation } = await checkFit(tx, schema, checkPlace))
      const result = await enqueue(tx)
      await tx.query(`RELEASE SAVEPOINT ${SAVEPOINT}`)
      return result
    } catch (error) {
      await undo(tx)
      if (isolation === 'read committed' && AGAIN.has(codeOf(error)) && tries < TRIES) continue
      throw told(error, db.location)
    }
  }
}

const SAVEPOINT = 'onceish_enqueue_in'

/** A savepoint: what fails in the middle must leave no half of a request in a transaction that the caller may still commit. */
async function begin(tx: Transaction, location: string): Promise<void> {
  try {
    await tx.query(`SAVEPOINT ${SAVEPOINT}`)
  } catch (error) {
    const code = codeOf(error)
    if (code === '25P01')
      throw unfit(
        'the client is in no transaction (a Pool never is): take a client, and call it between BEGIN and COMMIT; or use enqueue',
        error,
      )
    if (code === '25P02') throw unfit('the transaction of the client has failed already: roll it back', error)
    const known = toStoreError(error, location)
    if (isOnceishError(known)) throw known
    throw unfit(`the client cannot be used now: ${wordsOf(error)}`, error)
  }
}

/** What cannot be undone has taken the connection with it, and the caller's transaction too. */
async function undo(tx: Transaction): Promise<void> {
  try {
    await tx.query(`ROLLBACK TO SAVEPOINT ${SAVEPOINT}`)
    await tx.query(`RELEASE SAVEPOINT ${SAVEPOINT}`)
  } catch {
    // The first error says more.
  }
}

async function checkFit(
  tx: Transaction,
  schema: string,
  checkPlace: (tx: Transaction, database: string) => Promise<void>,
): Promise<CallerFacts> {
  const [facts] = await tx.query<CallerFacts>(
    `SELECT current_setting('transaction_read_only') AS read_only, current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('transaction_isolation') AS isolation, current_setting('client_encoding') AS encoding, to_regclass($1) IS NOT NULL AS has_store, current_database()::text AS database`,
    [`${schema}.store`],
  )
  if (facts === undefined) throw unfit('the client gives its rows otherwise than node-postgres does')
  if (facts.encoding !== 'UTF8')
    throw unfit(`the client_encoding is ${facts.encoding}, by which node-postgres does not write: leave it UTF8`)
  if (facts.read_only === 'on') throw unfit('the transaction of the client is read-only')
  if (!facts.has_store) {
    throw unfit(`database "${facts.database}", which the client is connected to, holds no store in schema ${schema}`)
  }
  await checkPlace(tx, facts.database)
  if (!SYNCED.has(facts.synchronous_commit)) {
    // For the caller's whole transaction: its commit is what acknowledges the request.
    await tx.query('SET LOCAL synchronous_commit = on')
  }
  return facts
}

async function placeOf(tx: Transaction, schema: string): Promise<Place> {
  const [place] = await tx.query<Place>(
    `SELECT system_identifier, timeline,
       (SELECT oid::text FROM pg_database WHERE datname = current_database()) AS database FROM ${schema}.timeline()`,
  )
  return place as Place
}

function isSame(a: Place, b: Place): boolean {
  return a.system_identifier === b.system_identifier && a.timeline === b.timeline && a.database === b.database
}

/** By text alone, whatever parsers the caller has set for types. */
function speakFor(client: CallerClient): Transaction {
  return {
    ticket: null,
    query: async <R extends object>(text: string, values: readonly unknown[] = []) =>
      (await client.query(text, [...values])).rows as R[],
  }
}

function told(error: unknown, location: string): unknown {
  const code = codeOf(error)
  if (isInTheWay(error)) {
    return new OnceishError(
      'STORE_BUSY',
      `enqueueIn: another transaction was in the way of this one (${wordsOf(error)}); nothing was enqueued: roll back, and do the whole transaction again`,
      { cause: error, details: { postgres: code } },
    )
  }
  if (code === '42501') {
    return unfit(
      `the client's role may not write to the store (${wordsOf(error)}): grant it what the store's own role may`,
      error,
    )
  }
  return toStoreError(error, location)
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export function unfit(why: string, cause?: unknown): OnceishError {
  return new OnceishError('CONNECTION_UNFIT', `enqueueIn: ${why}; nothing was enqueued`, { cause })
}
