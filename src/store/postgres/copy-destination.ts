// The side of a copy that is written: a schema that nothing works on until every row is there and was read back.
import { systemClock } from '../../core/clock.ts'
import { OnceishError } from '../../core/errors.ts'
import type {
  CopiedPage,
  CopiedRow,
  CopyDestination,
  CopyOrder,
  CopyProgress,
  CopyState,
  SourceFacts,
} from '../copying.ts'
import { isSetAside, SET_ASIDE } from '../set-aside.ts'
import { type Database, openDatabase, type Transaction } from './connection.ts'
import { lockId } from './locks.ts'
import { GIVEN_UP, migrate, versionOf } from './migrate.ts'
import { POSTGRES_SCHEMA_VERSION } from './schema.ts'
import { withoutCredentials } from './server-errors.ts'
import { TABLES, type Table } from './tables.ts'
import { readUrl } from './url.ts'
import { notify } from './watch.ts'

/** Rows of work, of which an unused store has none. */
const USED_BY = ['requests', 'task_state', 'events', 'logical_hashes', 'orphans', 'kept_payloads'] as const
/** Of one answer of the server, which comes whole: fewer where rows are long. */
const MOST_ROWS_A_FETCH = 256
const CHARS_A_FETCH = 4 * 1_048_576
const SET_ASIDE_VERSION = SET_ASIDE + POSTGRES_SCHEMA_VERSION

interface CopyRow {
  readonly copy_id: string
  readonly source: string
  readonly incarnation: string
  readonly state: 'copying' | 'complete' | 'given_up'
  readonly progress: CopyProgress
  readonly completed_at: number | null
}

/** @param create makes the schema where it is missing. @throws OnceishError COPY_REFUSED, STORE_* */
export async function openCopyDestination(location: string, create: boolean): Promise<CopyDestination> {
  const { url, schema } = readUrl(location)
  const s = `"${schema}"`
  const shown = `${withoutCredentials(url)}?schema=${schema}`
  const db = openDatabase(url)
  try {
    await prepareSchema(db, s, shown, create)
  } catch (error) {
    await db.close()
    throw error
  }
  const copyOf = async (tx: Transaction, isLocked: boolean): Promise<CopyRow | null> => {
    const text = `SELECT copy_id, source, incarnation, state, progress, completed_at FROM ${s}.copies`
    const [row] = await tx.query<CopyRow>(isLocked ? `${text} FOR UPDATE` : text)
    return row ?? null
  }
  /** Of the copy that is under way. @throws OnceishError COPY_REFUSED */
  const ownCopy = async (tx: Transaction, copyId: string): Promise<CopyRow> => {
    const copy = await copyOf(tx, true)
    if (copy?.copy_id === copyId && copy.state === 'copying') return copy
    throw refused(`${shown} is not being copied into by this copy any more: look at who else does`)
  }

  return {
    location: shown,
    tables: TABLES.map(({ name, columns }) => ({ name, columns: Object.keys(columns) })),
    state: () => db.read((tx) => stateOf(tx, s, copyOf)),
    now: async () => {
      const [row] = await db.read((tx) => tx.query<{ now: number }>(`SELECT ${s}.now_ms() AS now`))
      return row?.now ?? 0
    },
    begin: (order) => db.transact((tx) => begin(tx, s, shown, order, copyOf)),
    write: (copyId, table, afterKey, page) =>
      db.transact(async (tx) => {
        const { progress } = await ownCopy(tx, copyId)
        const known = progress[table] ?? { key: null, rows: 0 }
        if (known.key !== afterKey) throw refused(`another process copies into ${shown}: let one of them do it`)
        await insert(tx, s, tableOf(table), page.rows)
        await tx.query(`UPDATE ${s}.copies SET progress = jsonb_set(progress, ARRAY[$1::text], $2::jsonb)`, [
          table,
          JSON.stringify({ key: page.lastKey, rows: known.rows + page.rows.length }),
        ])
      }),
    readAll: (onRows, onStart) =>
      db.read(async (tx) => {
        onStart()
        for (const table of TABLES) await readTable(tx, s, table, onRows)
        return serverOf(tx, s)
      }),
    complete: (copyId, facts, server) =>
      db.transact(async (tx) => {
        await ownCopy(tx, copyId)
        // Promoted in between, it may have lost what was read.
        if ((await serverOf(tx, s)) !== server) {
          throw refused(`the server of ${shown} was replaced while the copy was read back: run the same command again`)
        }
        await complete(tx, s, facts)
      }),
    giveUp: (copyId, force) => db.transact((tx) => giveUp(tx, s, shown, { copyId, force }, copyOf)),
    close: () => db.close(),
  }
}

function refused(message: string): OnceishError {
  return new OnceishError('COPY_REFUSED', message)
}

/** One that is set aside is another copy's, or this one's that broke off. */
async function prepareSchema(db: Database, s: string, shown: string, create: boolean): Promise<void> {
  const version = await db.transact((tx) => versionOf(tx.query, s))
  if (version === SET_ASIDE_VERSION) return
  if (isSetAside(version)) {
    throw refused(`${shown} holds a copy of another release of onceish: finish it with that one`)
  }
  if (version === 0 && !create) throw refused(nothingOf(shown))
  await migrate(db, { schema: s, create: true, now: systemClock.wallNow() })
}

type CopyOf = (tx: Transaction, isLocked: boolean) => Promise<CopyRow | null>

async function stateOf(tx: Transaction, s: string, copyOf: CopyOf): Promise<CopyState> {
  const copy = await copyOf(tx, false)
  if (copy === null) return (await isUsed(tx, s)) ? { kind: 'used' } : { kind: 'empty' }
  const { state: kind, copy_id: copyId, source: from, incarnation, completed_at: completedAt } = copy
  return { kind, copyId, from, incarnation, wasComplete: completedAt !== null }
}

async function isUsed(tx: Transaction, s: string): Promise<boolean> {
  const some = USED_BY.map((table) => `EXISTS (SELECT 1 FROM ${s}.${table})`).join(' OR ')
  const [row] = await tx.query<{ used: boolean }>(
    `SELECT ${some} OR EXISTS (SELECT 1 FROM ${s}.store WHERE has_called = 1) AS used`,
  )
  return row?.used === true
}

async function begin(
  tx: Transaction,
  s: string,
  shown: string,
  { copyId, from, facts }: CopyOrder,
  copyOf: CopyOf,
): Promise<CopyProgress> {
  await tx.query('SELECT pg_advisory_xact_lock($1::bigint)', [lockId(s, 'copy')])
  const copy = await copyOf(tx, true)
  if (copy?.copy_id === copyId && copy.state === 'copying') return copy.progress
  const names = TABLES.map(({ name }) => `${s}.${name}`).join(', ')
  // Whoever has the store open is waited for, and finds it set aside.
  await tx.query(`LOCK TABLE ${names}, ${s}.store IN ACCESS EXCLUSIVE MODE`)
  if (copy === null ? await isUsed(tx, s) : copy.completed_at !== null) {
    throw refused(`${shown} was worked on already, and is left as it is: name another schema`)
  }
  if (copy !== null && copy.incarnation !== facts.incarnation) {
    throw refused(`${shown} is copied to from another store, ${copy.source}: name another schema`)
  }
  // What an earlier copy of the same store brought, which was taken back since: nobody ever worked on it.
  await tx.query(`TRUNCATE ${names}`)
  await tx.query(
    `INSERT INTO ${s}.copies (id, copy_id, source, incarnation, state, begun_at) VALUES (1, $1, $2, $3, 'copying', ${s}.now_ms())
     ON CONFLICT (id) DO UPDATE SET copy_id = excluded.copy_id, source = excluded.source, incarnation = excluded.incarnation,
       state = excluded.state, progress = excluded.progress, begun_at = excluded.begun_at`,
    [copyId, from, facts.incarnation],
  )
  await tx.query(
    `UPDATE ${s}.store SET schema_version = $1, namespace = $2, incarnation = $3, high_water_at = $4, has_called = $5, clock_ahead_ms = 0`,
    [SET_ASIDE_VERSION, facts.namespace, facts.incarnation, facts.highWaterAt, facts.hasCalled ? 1 : 0],
  )
  return {}
}

function tableOf(name: string): Table {
  const table = TABLES.find((one) => one.name === name)
  if (table === undefined) throw refused(`there is no table ${name} to copy into`)
  return table
}

async function insert(tx: Transaction, s: string, { name, columns }: Table, rows: CopiedPage['rows']): Promise<void> {
  const names = Object.keys(columns)
  const json = JSON.stringify(rows)
  if (json.includes('\\u0000')) refuseNul(name, names, rows)
  const cells = Object.values(columns).map((type, at) => `(r->>${at})::${type.replace(NO_COLLATION, '')}`)
  await tx.query(
    `INSERT INTO ${s}.${name} (${names.map((column) => `"${column}"`).join(', ')})
     SELECT ${cells.join(', ')} FROM json_array_elements($1::json) r`,
    [json],
  )
}

const NO_COLLATION = ' COLLATE "C"'

/** SQLite holds such text, and nothing that PostgreSQL has does. */
function refuseNul(table: string, names: readonly string[], rows: readonly CopiedRow[]): void {
  for (const row of rows) {
    const at = row.findIndex((cell) => typeof cell === 'string' && cell.includes('\0'))
    if (at === -1) continue
    const request = row[names.indexOf('request_id')] ?? 'none'
    throw refused(
      `${names[at]} in ${table} (request ${request}) holds a NUL character, which PostgreSQL stores nowhere: take the copy back with --undo, and end that request first`,
    )
  }
}

async function readTable(
  tx: Transaction,
  s: string,
  { name, columns }: Table,
  onRows: (table: string, rows: readonly CopiedRow[]) => void,
): Promise<void> {
  const cells = Object.keys(columns).map((column) => `"${column}"`)
  let count = 1
  // Named statements remember what columns they give: each table has a cursor of its own.
  await tx.query(`DECLARE copied_${name} NO SCROLL CURSOR FOR SELECT ${cells.join(', ')} FROM ${s}.${name}`)
  for (;;) {
    const rows = await tx.query<Record<string, unknown>>(`FETCH ${count} FROM copied_${name}`)
    if (rows.length === 0) break
    const copied = rows.map((row) => Object.values(row).map(cellOf))
    onRows(name, copied)
    const chars = copied.flat().reduce<number>((all, cell) => all + (typeof cell === 'string' ? cell.length : 0), 0)
    if (chars > CHARS_A_FETCH) count = Math.max(1, count / 2)
    else if (2 * chars < CHARS_A_FETCH) count = Math.min(MOST_ROWS_A_FETCH, 2 * count)
  }
  await tx.query(`CLOSE copied_${name}`)
}

function cellOf(cell: unknown): string | number | null {
  return Buffer.isBuffer(cell) ? `\\x${cell.toString('hex')}` : (cell as string | number | null)
}

async function serverOf(tx: Transaction, s: string): Promise<string> {
  const [row] = await tx.query<{ server: string }>(
    `SELECT system_identifier || ' ' || timeline AS server FROM ${s}.timeline()`,
  )
  return row?.server ?? ''
}

/** Numbers go on above those that were given out. */
async function complete(tx: Transaction, s: string, { lastIds }: SourceFacts): Promise<void> {
  const places = `(SELECT COALESCE(MAX(place), 0) FROM ${s}.group_rotation)`
  const goOn = (sequence: string, last: string) => `setval(${sequence}, GREATEST(1, ${last}), ${last} > 0)`
  const numbered = (table: string, column: string) => `pg_get_serial_sequence('${s}.${table}', '${column}')`
  await tx.query(
    `SELECT ${goOn(`'${s}.request_ids'`, '$1::bigint')}, ${goOn(numbered('events', 'event_id'), '$2::bigint')},
       ${goOn(numbered('orphans', 'orphan_id'), '$3::bigint')}, ${goOn(`'${s}.places'`, places)}`,
    [lastIds.requests, lastIds.events, lastIds.orphans],
  )
  await tx.query(`UPDATE ${s}.copies SET state = 'complete', completed_at = ${s}.now_ms()`)
  await tx.query(
    `UPDATE ${s}.store SET schema_version = $1, system_identifier = now.system_identifier, timeline = now.timeline FROM ${s}.timeline() now`,
    [POSTGRES_SCHEMA_VERSION],
  )
  for (const { name } of TABLES) await tx.query(`ANALYZE ${s}.${name}`)
  await notify(tx, s, 'copy')
}

function nothingOf(shown: string): string {
  return `${shown} holds nothing of this copy, so that nothing tells whether it was worked: where it surely was not, or its workers are stopped for good, add --force; nothing is called from the old file then before "onceish recover --restored"`
}

async function giveUp(
  tx: Transaction,
  s: string,
  shown: string,
  { copyId, force }: { copyId: string; force: boolean },
  copyOf: CopyOf,
): Promise<{ mayHaveCalled: boolean }> {
  const copy = await copyOf(tx, true)
  const mayHaveCalled = copy?.copy_id !== copyId || copy.completed_at !== null
  if (mayHaveCalled && !force) {
    throw refused(
      copy?.copy_id === copyId
        ? `the copy in ${shown} is complete and may have been worked: stop every worker of it, then add --force; nothing is called from the old file then before "onceish recover --restored"`
        : nothingOf(shown),
    )
  }
  if (copy?.copy_id !== copyId) return { mayHaveCalled }
  if (copy.state === 'complete') {
    await tx.query(`LOCK TABLE ${s}.store, ${s}.task_state IN ACCESS EXCLUSIVE MODE`)
    await refuseLeased(tx, s, shown)
    await tx.query(`UPDATE ${s}.store SET schema_version = $1`, [SET_ASIDE_VERSION])
    await tx.query(`INSERT INTO ${s}.events (at, kind, actor) VALUES (${s}.now_ms(), '${GIVEN_UP}', 'copy')`)
  }
  await tx.query(`UPDATE ${s}.copies SET state = 'given_up'`)
  return { mayHaveCalled }
}

async function refuseLeased(tx: Transaction, s: string, shown: string): Promise<void> {
  const [leased] = await tx.query<{ rows: number; owner: string | null }>(
    `SELECT COUNT(*) AS rows, MIN(lease_owner) AS owner FROM ${s}.task_state WHERE lease_until > ${s}.now_ms()`,
  )
  if (leased === undefined || leased.rows === 0) return
  throw new OnceishError(
    'STORE_IN_USE',
    `${leased.rows} requests of ${shown} are leased by a worker (${leased.owner}): stop every worker of it. Nothing was changed`,
  )
}
