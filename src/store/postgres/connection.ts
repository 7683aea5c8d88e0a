// A pool of node-postgres clients, and transactions that are done again whole where the server asks for it. A commit whose answer was
// lost is asked about (commit-fate.ts), never guessed.
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { OnceishError } from '../../core/errors.ts'
import { BRANCH_SQL, ERA_SQL, type Fate, fateOf, type LostTicket } from './commit-fate.ts'
import { codeOf, isInTheWay, isLost, isNameLost, toStoreError, withoutCredentials } from './server-errors.ts'

export interface Transaction {
  /** One statement, one round trip. Rows as objects; int8 comes as a number. */
  query<R extends object = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<R[]>
  /** By which another session can be asked what became of it; whoever has it from a statement of its own saves a round trip. */
  ticket: Ticket | null
}

/** One that we begin and commit. */
export interface OwnTransaction extends Transaction {
  /** Of the server that this connection is to: it may be another than the one before. */
  readonly systemIdentifier: string
  /** The last statement, once there is a ticket: COMMIT goes out right behind it, so that both take one round trip. */
  finishWith(text: string, values: readonly unknown[]): void
}

export interface Ticket {
  /** Null: nothing was written. */
  readonly xid: string | null
  /** Of the server's history. */
  readonly branch: string
}

/** Columns that make a ticket. */
export const TICKET_SQL = `pg_current_xact_id_if_assigned()::text AS xid, ${BRANCH_SQL} AS branch`

export interface Database {
  /** As people are shown it: without credentials. */
  readonly location: string
  /** Runs again from the start where another transaction was in its way. @throws OnceishError STORE_* */
  transact<T>(work: (tx: OwnTransaction) => Promise<T>, options?: TransactOptions<T>): Promise<T>
  /** Reads of one instant. */
  read<T>(work: (tx: Transaction) => Promise<T>, options?: { readonly patienceMs?: number }): Promise<T>
  /** In the background, where nobody else does so: of no account where it fails, or the role may not. */
  vacuum(table: string): void
  /** A client of its own, for LISTEN. */
  connect(): Promise<pg.Client>
  close(): Promise<void>
}

export interface TransactOptions<T> {
  /** Right before COMMIT is sent, and right after it is known to have happened. */
  readonly beforeCommit?: () => void
  readonly committed?: () => void
  /** How long one statement may take; a network that was cut tells nobody. */
  readonly patienceMs?: number
  /** How long an answer to COMMIT that was lost is asked for, before STORE_UNREACHABLE is thrown. */
  readonly askForMs?: number
  /** It is thrown now, and the commit is in doubt: `ask` goes on asking. */
  readonly inDoubt?: (ask: Ask<T>) => void
  /** After a crash of the server: whether what it made is there. */
  readonly isThere?: (tx: Transaction, made: T) => Promise<boolean>
}

/**
 * What became of the commit: what the transaction made, or null where it surely did not happen, or nobody can tell any more.
 * @throws OnceishError STORE_*: it is still not known
 */
export type Ask<T> = () => Promise<T | null>

const WRITE = 'BEGIN ISOLATION LEVEL READ COMMITTED'
const READ = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY'
const READING: Session = { begin: READ, era: '', systemIdentifier: '' }
const TRIES = 20
/** Of a transaction whose connection was gone before COMMIT was sent: it surely did not happen. */
const TRIES_WHEN_LOST = 3
const ASK_FOR_MS = 30_000
const POOL_SIZE = 4
const CONNECT_WITHIN_MS = 10_000
const PATIENCE_MS = 120_000
const CLOSE_WITHIN_MS = 1000

/** A commit outlives a crash, and waits for the standby where there is one: said in each transaction, since a reload changes the default. */
const SYNCED = 'SET LOCAL synchronous_commit TO on'
/** Where nobody has set it: rows are not locked for ever by a process that stands still, or is cut off. */
const IDLE_TIMEOUT = 'idle_in_transaction_session_timeout'

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
    keepAliveInitialDelayMillis: 10_000,
    // BEGIN and the first statement in one round trip, and the last with COMMIT: what fails in between fails all that is behind it.
    pipeline: true,
    connectionTimeoutMillis: CONNECT_WITHIN_MS,
  }
  const pool = new pg.Pool({ ...settings, max: POOL_SIZE, idleTimeoutMillis: 60_000 })
  // A connection that breaks while it rests: the next one is made when it is needed.
  pool.on('error', () => {})
  // One that is ended in its first moment says so before whoever asked for it listens.
  pool.on('connect', (client) => client.on('error', () => {}))
  /** Off for good once a pooler has shown that it gives each transaction another server connection. */
  let namesStatements = true
  const names = new Map<string, string>()
  const sessions = new WeakMap<pg.ClientBase, Session>()

  function nameOf(text: string): string {
    const known = names.get(text)
    if (known !== undefined) return known
    const name = `onceish_${names.size}`
    names.set(text, name)
    return name
  }

  /** @param begun the answer to BEGIN, behind which the first statement is sent without waiting for it. */
  function speak(client: pg.ClientBase, session: Session, begun: Promise<unknown>, patienceMs: number): Speaking {
    const tx: Speaking = {
      ticket: null,
      systemIdentifier: session.systemIdentifier,
      last: null,
      finishWith: (text, values) => {
        tx.last = () => tx.query(text, values)
      },
      query: async <R extends object>(text: string, values: readonly unknown[] = []) => {
        const query = { text, values: [...values], ...(namesStatements && { name: nameOf(text) }) }
        const { rows } = await client.query<R>({ ...query, query_timeout: patienceMs } as pg.QueryConfig)
        await begun
        return rows
      },
    }
    return tx
  }

  async function checkOut(): Promise<pg.PoolClient> {
    try {
      return await pool.connect()
    } catch (error) {
      const isFull = pool.totalCount >= POOL_SIZE && isLost(error) && codeOf(error) === ''
      if (!isFull) throw new NoConnection(error)
      throw new OnceishError(
        'STORE_BUSY',
        `all ${POOL_SIZE} connections of this process to ${location} were busy for ${CONNECT_WITHIN_MS / 1000} s: ask for less at a time`,
        { cause: error },
      )
    }
  }

  /** Asked once a connection. */
  async function sessionOf(client: pg.ClientBase): Promise<Session> {
    const known = sessions.get(client)
    if (known !== undefined) return known
    const system = '(SELECT system_identifier::text FROM pg_control_system()) AS system'
    const query = say(
      `SELECT current_setting('${IDLE_TIMEOUT}') AS idle_timeout, ${system}, ${ERA_SQL} AS era`,
      CONNECT_WITHIN_MS,
    )
    const row = (await client.query<Record<string, string>>(query)).rows[0]
    const own = row?.['idle_timeout'] === '0' ? [`SET LOCAL ${IDLE_TIMEOUT} TO '10s'`] : []
    const begin = [WRITE, SYNCED, ...own].join('; ')
    const session = { begin, era: row?.['era'] ?? '', systemIdentifier: row?.['system'] ?? '' }
    sessions.set(client, session)
    return session
  }

  async function once<T>(isRead: boolean, work: (tx: OwnTransaction) => Promise<T>, options: TransactOptions<T>) {
    const client = await checkOut()
    // Told by the query that is under way as well; without a listener it would end the process.
    const ignore = () => {}
    client.on('error', ignore)
    const { patienceMs = PATIENCE_MS } = options
    let isBroken = true
    try {
      const session = isRead ? READING : await sessionOf(client)
      const begun = client.query(say(session.begin, patienceMs))
      begun.catch(() => {}) // told with the first statement
      const tx = speak(client, session, begun, patienceMs)
      const made = await work(tx)
      options.beforeCommit?.()
      const ticket = tx.ticket ?? (isRead ? null : ((await tx.query<Ticket>(`SELECT ${TICKET_SQL}`))[0] ?? null))
      await commit(client, { last: tx.last, ticket: ticket && { ...ticket, era: session.era }, made, patienceMs })
      isBroken = false
      return made
    } catch (error) {
      if (!isLost(error) && !(error instanceof LostCommit)) isBroken = !(await isRolledBack(client, patienceMs))
      // What was ended in the middle of a function may have left a lock of the session behind.
      if (codeOf(error) === '57014') isBroken = true
      throw error
    } finally {
      client.off('error', ignore)
      client.release(isBroken)
    }
  }

  async function commit(client: pg.ClientBase, { last, ticket, made, patienceMs }: Ending): Promise<void> {
    const isWritten = last?.()
    const isCommitted = client.query(say('COMMIT', patienceMs))
    isCommitted.catch(() => {}) // where the last statement fails, that is what is told
    try {
      await isWritten
      await isCommitted
    } catch (error) {
      if (ticket === null || ticket.xid === null || !isLost(error)) throw error
      throw new LostCommit(ticket, made, error)
    }
  }

  async function ask<T>({ ticket, made }: LostCommit, { isThere }: TransactOptions<T>, forMs: number): Promise<Fate> {
    const fate = await fateOf(pool, ticket, forMs)
    if (fate !== 'perhaps') return fate
    if (isThere === undefined) return 'unknowable'
    return (await transact(true, (tx) => isThere(tx, made as T), {})) ? 'committed' : 'aborted'
  }

  /** @returns null: it surely did not happen. */
  async function afterLoss<T>(lost: LostCommit, options: TransactOptions<T>): Promise<{ made: T } | null> {
    const conclude = () => {
      options.committed?.()
      return lost.made as T
    }
    const fate = await ask(lost, options, options.askForMs ?? ASK_FOR_MS)
    if (fate === 'committed') return { made: conclude() }
    if (fate === 'aborted') return null
    if (fate === 'unanswered') {
      options.inDoubt?.(async () => {
        const later = await ask(lost, options, 0)
        if (later === 'unanswered') throw inDoubt(lost)
        return later === 'committed' ? conclude() : null
      })
    }
    throw inDoubt(lost)
  }

  function inDoubt(lost: LostCommit): OnceishError {
    const said = lost.cause instanceof Error ? lost.cause.message : String(lost.cause)
    return new OnceishError(
      'STORE_UNREACHABLE',
      `${location} was lost while it committed (${said}), and whether it did is not known: what was asked for may have happened`,
      { cause: lost.cause, details: { inDoubt: true } },
    )
  }

  async function transact<T>(
    isRead: boolean,
    work: (tx: OwnTransaction) => Promise<T>,
    options: TransactOptions<T>,
  ): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        const made = await once(isRead, work, options)
        options.committed?.()
        return made
      } catch (error) {
        if (error instanceof LostCommit) {
          const known = await afterLoss(error, options)
          if (known !== null) return known.made
        } else if (isNameLost(error)) namesStatements = false
        else if (!isInTheWay(error) && !(mayBeStale(error) && tries < TRIES_WHEN_LOST)) throw ours(error)
        if (tries >= TRIES) throw ours(error)
        await delay(Math.random() * Math.min(200, 2 ** tries))
      }
    }
  }

  const ours = (error: unknown) => {
    const cause = error instanceof NoConnection || error instanceof LostCommit ? error.cause : error
    return toStoreError(cause, location)
  }

  return {
    location,
    transact: (work, options = {}) => transact(false, work, options),
    read: (work, options = {}) => transact(true, work, options),
    vacuum: (table) => {
      pool.query(`VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON, TRUNCATE OFF) ${table}`).catch(() => {})
    },
    connect: async () => {
      const client = new pg.Client(settings)
      client.on('error', () => {})
      await client.connect()
      return client
    },
    close: () => withinMs(CLOSE_WITHIN_MS, pool.end()),
  }
}

function say(text: string, patienceMs: number): pg.QueryConfig {
  return { text, query_timeout: patienceMs } as pg.QueryConfig
}

async function isRolledBack(client: pg.ClientBase, patienceMs: number): Promise<boolean> {
  return client.query(say('ROLLBACK', patienceMs)).then(
    () => true,
    () => false,
  )
}

/** A connection that was cut has nobody to take leave of. */
export async function withinMs(ms: number, work: Promise<unknown>): Promise<void> {
  const over = new AbortController()
  await Promise.race([work, delay(ms, null, { signal: over.signal })])
    .catch(() => {})
    .finally(() => over.abort())
}

/** None was to be had. */
class NoConnection extends Error {
  constructor(cause: unknown) {
    super('no connection', { cause })
  }
}

interface Session {
  /** What its transactions that write begin with. */
  readonly begin: string
  readonly era: string
  readonly systemIdentifier: string
}

interface Speaking extends OwnTransaction {
  /** Null: everything was sent. */
  last: (() => Promise<unknown>) | null
}

interface Ending {
  readonly last: Speaking['last']
  readonly ticket: LostTicket | null
  readonly made: unknown
  readonly patienceMs: number
}

/** COMMIT was sent, and the connection was gone before its answer. */
class LostCommit extends Error {
  readonly ticket: LostTicket
  readonly made: unknown
  constructor(ticket: LostTicket, made: unknown, cause: unknown) {
    super('the connection was lost, and the answer to COMMIT with it', { cause })
    this.ticket = ticket
    this.made = made
  }
}

/** A connection that had died while it rested, or died in work that it did not finish; one that says nothing at all is not tried again. */
function mayBeStale(error: unknown): boolean {
  if (error instanceof NoConnection) return false
  return isLost(error) && !(error instanceof Error && error.message === 'Query read timeout')
}
