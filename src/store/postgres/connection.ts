// A pool of node-postgres clients, transactions that are done again whole where the server asks for it, and the words for what can
// go wrong. A commit whose answer was lost is asked about, never guessed.
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { isOnceishError, OnceishError } from '../../core/errors.ts'
import { CHANGED_STATE } from './schema.ts'

export interface Transaction {
  /** One statement, one round trip. Rows as objects; int8 comes as a number. */
  query<R extends object = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<R[]>
  /** By which another session can be asked what became of it; whoever has it from a statement of its own saves a round trip. */
  ticket: Ticket | null
  /** Of the server that this connection is to: it may be another than the one before. */
  readonly systemIdentifier: string
}

export interface Ticket {
  /** Null: nothing was written. */
  readonly xid: string | null
  /** Of the server's history. */
  readonly branch: string
}

/** Columns that make a ticket. */
export const TICKET_SQL = `pg_current_xact_id_if_assigned()::text AS xid, left(pg_walfile_name(pg_current_wal_lsn()), 8) AS branch`

export interface Database {
  /** As people are shown it: without credentials. */
  readonly location: string
  /** Runs again from the start where another transaction was in its way. @throws OnceishError STORE_* */
  transact<T>(work: (tx: Transaction) => Promise<T>, options?: TransactOptions): Promise<T>
  /** Reads of one instant. */
  read<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
  /** A client of its own, for LISTEN. */
  connect(): Promise<pg.Client>
  close(): Promise<void>
}

export interface TransactOptions {
  /** Right before COMMIT is sent, and right after it is known to have happened. */
  readonly beforeCommit?: () => void
  readonly committed?: () => void
}

const READ = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY'
const TRIES = 20
/** How long an answer to COMMIT that was lost is asked for. */
const ASK_FOR_MS = 30_000
const ASK_EVERY_MS = 200
const POOL_SIZE = 4
const CONNECT_WITHIN_MS = 10_000

/** node-postgres gives int8 as text, since it can be larger than a number is exact; ours cannot. */
const TYPES: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid, format ?? 'text')) as never,
}

export function openDatabase(url: string): Database {
  const location = withoutCredentials(url)
  const settings: pg.ClientConfig = {
    connectionString: url,
    application_name: 'onceish',
    types: TYPES,
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_WITHIN_MS,
  }
  const pool = new pg.Pool({ ...settings, max: POOL_SIZE, idleTimeoutMillis: 60_000 })
  // A connection that breaks while it rests: the next one is made when it is needed.
  pool.on('error', () => {})
  /** Off for good once a pooler has shown that it gives each transaction another server connection. */
  let namesStatements = true
  const names = new Map<string, string>()

  function nameOf(text: string): string {
    const known = names.get(text)
    if (known !== undefined) return known
    const name = `onceish_${names.size}`
    names.set(text, name)
    return name
  }

  const systems = new WeakMap<pg.ClientBase, string>()

  async function systemOf(client: pg.ClientBase): Promise<string> {
    const known = systems.get(client)
    if (known !== undefined) return known
    const { rows } = await client.query<{ id: string }>('SELECT system_identifier::text AS id FROM pg_control_system()')
    const id = rows[0]?.id ?? ''
    systems.set(client, id)
    return id
  }

  /** @param begun the answer to BEGIN, behind which the first statement is sent without waiting for it. */
  function speak(client: pg.ClientBase, systemIdentifier: string, begun: Promise<unknown>): Transaction {
    return {
      ticket: null,
      systemIdentifier,
      query: async <R extends object>(text: string, values: readonly unknown[] = []) => {
        const query = { text, values: [...values], ...(namesStatements && { name: nameOf(text) }) }
        const { rows } = await client.query<R>(query)
        await begun
        return rows
      },
    }
  }

  async function once<T>(begin: string, work: (tx: Transaction) => Promise<T>, options: TransactOptions): Promise<T> {
    const client = await pool.connect()
    // Told by the query that is under way as well; without a listener it would end the process.
    const ignore = () => {}
    client.on('error', ignore)
    let broken: unknown
    try {
      const systemIdentifier = await systemOf(client)
      const begun = client.query(begin)
      begun.catch(() => {}) // told with the first statement
      const tx = speak(client, systemIdentifier, begun)
      const made = await work(tx)
      options.beforeCommit?.()
      await commit(client, tx.ticket, begin === READ)
      return made
    } catch (error) {
      broken = error
      if (!isLost(error))
        await client.query('ROLLBACK').then(
          () => (broken = undefined),
          () => {},
        )
      throw error
    } finally {
      client.off('error', ignore)
      client.release(broken !== undefined)
    }
  }

  async function commit(client: pg.ClientBase, known: Ticket | null, isRead: boolean): Promise<void> {
    const ticket = known ?? (isRead ? undefined : (await client.query<Ticket>(`SELECT ${TICKET_SQL}`)).rows[0])
    const { xid = null, branch = '' } = ticket ?? {}
    try {
      await client.query('COMMIT')
    } catch (error) {
      if (xid === null || !isLost(error)) throw error
      if (!(await hasCommitted(xid, branch, error))) throw new AbortedCommit(error)
    }
  }

  /** Another session of the same server knows what became of it. */
  async function hasCommitted(xid: string, branch: string, lost: unknown): Promise<boolean> {
    const until = performance.now() + ASK_FOR_MS
    while (performance.now() < until) {
      try {
        const { rows } = await pool.query<{ status: string | null; branch: string }>(
          `SELECT pg_xact_status($1::text::xid8) AS status, left(pg_walfile_name(pg_current_wal_lsn()), 8) AS branch`,
          [xid],
        )
        const { status = null, branch: now } = rows[0] ?? {}
        // Numbers of another branch of history are of other transactions.
        if (now !== branch || status === null) break
        if (status !== 'in progress') return status === 'committed'
      } catch (error) {
        if (!isLost(error)) break
      }
      await delay(ASK_EVERY_MS)
    }
    throw lost
  }

  async function transact<T>(
    begin: string,
    work: (tx: Transaction) => Promise<T>,
    options: TransactOptions = {},
  ): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        const made = await once(begin, work, options)
        options.committed?.()
        return made
      } catch (error) {
        const code = codeOf(error)
        // What a name was given to is gone with the server connection that knew it.
        if (code === '26000' || code === '42P05') namesStatements = false
        else if (!(error instanceof AbortedCommit) && !AGAIN.has(code)) throw toStoreError(error, location)
        if (tries >= TRIES) throw toStoreError(error, location)
        await delay(Math.random() * Math.min(200, 2 ** tries))
      }
    }
  }

  return {
    location,
    transact: (work, options) => transact('BEGIN', work, options),
    read: (work) => transact(READ, work),
    connect: async () => {
      const client = new pg.Client(settings)
      client.on('error', () => {})
      await client.connect()
      return client
    },
    close: () => pool.end(),
  }
}

/** The server is sure that it did not happen. */
class AbortedCommit extends Error {
  constructor(cause: unknown) {
    super('the connection was lost, and the transaction with it', { cause })
  }
}

/** Serialization failure, deadlock, a row that changed, a key that somebody else was first with, an idle transaction that was ended. */
const AGAIN: ReadonlySet<string> = new Set(['40001', '40P01', CHANGED_STATE, '23505', '25P03'])

function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : ''
}

/** Whether the connection is gone, and with it the answer. */
function isLost(error: unknown): boolean {
  const code = codeOf(error)
  if (/^(?:08|57P0[1-5]|25P03)/.test(code)) return true
  if (/^E[A-Z]+$/.test(code)) return true
  return error instanceof Error && /connection|timeout exceeded|terminated/i.test(error.message) && code === ''
}

export function withoutCredentials(url: string): string {
  try {
    const parsed = new URL(url)
    parsed.username = ''
    parsed.password = ''
    parsed.search = ''
    return parsed.toString()
  } catch {
    return 'postgres://(not a URL)'
  }
}

/** Our error for one of the server's or of the connection; ours pass as they are. */
export function toStoreError(error: unknown, location: string): unknown {
  if (isOnceishError(error)) return error
  const code = codeOf(error)
  const said = error instanceof Error ? error.message : String(error)
  const fail = (ours: ConstructorParameters<typeof OnceishError>[0], message: string) =>
    new OnceishError(ours, message, { cause: error, details: { postgres: code } })
  if (code === '53300')
    return fail(
      'STORE_BUSY',
      `${location} takes no more connections (${said}): raise max_connections, or put a pooler before it`,
    )
  if (code === '53100')
    return fail('STORE_FULL', `no space left on the server of ${location}: free some; nothing was lost`)
  if (code === '25006')
    return fail('STORE_UNWRITABLE', `${location} is read-only, as a standby is: point "store" at the primary`)
  if (code === '42501' || code.startsWith('28') || code === '3D000')
    return fail('STORE_UNWRITABLE', `${location} refuses us (${said}): check the role, its password and its rights`)
  if (AGAIN.has(code) || code === '55P03') return fail('STORE_BUSY', `${location} is too busy (${said}): try again`)
  if (isLost(error)) return fail('STORE_UNREACHABLE', `${location} cannot be reached (${said || code})`)
  return error
}
