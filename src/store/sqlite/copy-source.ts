// The side of a copy that is read: a SQLite file that nobody else has open when it is set aside, and that nobody changes from then on.
import { randomUUID } from 'node:crypto'
import { readdirSync, realpathSync } from 'node:fs'
import { basename, dirname, resolve as resolvePath } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { invariant, OnceishError } from '../../core/errors.ts'
import type {
  CopiedCell,
  CopiedPage,
  CopiedRow,
  CopiedTable,
  CopySource,
  SetAside,
  SetAsideOrder,
  SourceFacts,
  TakeBackOrder,
} from '../copying.ts'
import { refuseForeign } from '../origin.ts'
import { isSetAside, SET_ASIDE } from '../set-aside.ts'
import { createCallGate } from './call-gate.ts'
import { hasRecord } from './call-record.ts'
import { type Connection, connect, isBusy, toStoreError } from './connection.ts'
import { readSchemaVersion, refuseNewer, refuseOlder, SCHEMA_VERSION } from './migrate.ts'
import { readFacts } from './queries.ts'
import { logicalHashOf } from './rows.ts'
import { COPIED_EVENT, readSetAside } from './set-aside.ts'
import { prepareStatements } from './statements.ts'

const ROWS_A_PAGE = 1000
const CHARS_A_PAGE = 4 * 1_048_576
/** A look of somebody who passes by is waited for. */
const ALONE_TRIES = 20
const ALONE_EVERY_MS = 100
const UNDONE_EVENT = 'store_copy_undone'

/** @throws OnceishError STORE_NOT_FOUND, STORE_SCHEMA_OLDER, STORE_SCHEMA_NEWER and others of STORE_* */
export async function openCopySource(location: string): Promise<CopySource> {
  const path = resolvePath(location)
  let db = await open(path)
  let readers = new Map<string, Reader>()

  const guarded = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw toStoreError(error, path)
    }
  }

  /** Closes what reads, since one's own connection is one too many as well. */
  async function alone(work: (alone: Connection) => void): Promise<void> {
    readers = new Map()
    db.close()
    try {
      const held = await holdAlone(path)
      try {
        guarded(() => work(held))
      } finally {
        held.close()
      }
    } finally {
      db = await connect(path, { create: false })
    }
  }

  return {
    location: path,
    facts: (tables) => guarded(() => db.transaction(() => factsOf(db, tables))()),
    whereTo: () => guarded(() => whereTo(db)),
    setAside: (order) => alone((held) => setAside(held, path, order)),
    takeBack: (order) => alone((held) => takeBack(held, order)),
    page: (table, afterKey) =>
      guarded(() => {
        const known = readers.get(table.name) ?? readerOf(db, table)
        readers.set(table.name, known)
        return readPage(known, afterKey)
      }),
    close: () => db.close(),
  }
}

async function open(path: string): Promise<Connection> {
  const db = await connect(path, { create: false })
  try {
    const version = readSchemaVersion(db)
    if (version === 0)
      throw new OnceishError('STORE_NOT_FOUND', `${path} holds no onceish tables: there is nothing to copy`)
    const plain = isSetAside(version) ? version - SET_ASIDE : version
    refuseNewer(plain, path)
    if (plain < SCHEMA_VERSION) refuseOlder(plain, path)
    return db
  } catch (error) {
    db.close()
    throw toStoreError(error, path)
  }
}

/** In this mode SQLite takes the file for itself, which it cannot while any other connection is open, an idle one included. */
async function holdAlone(path: string): Promise<Connection> {
  for (let tries = 1; ; tries++) {
    const held = new Database(path, { fileMustExist: true, timeout: 0 })
    try {
      held.pragma('locking_mode = EXCLUSIVE')
      held.pragma('synchronous = FULL')
      held.exec('BEGIN IMMEDIATE; ROLLBACK')
      return held
    } catch (error) {
      held.close()
      if (!isBusy(error)) throw toStoreError(error, path)
      if (tries >= ALONE_TRIES) {
        throw new OnceishError(
          'STORE_IN_USE',
          `${path} is open in another process: stop every worker, and whatever else has it open (a program that enqueues, a sqlite3 shell; fuser FILE names them). Nothing was changed`,
        )
      }
    }
    await delay(ALONE_EVERY_MS)
  }
}

function factsOf(db: Connection, tables: readonly CopiedTable[]): SourceFacts {
  refuseUncopied(db, tables)
  const { namespace, incarnation, highWaterAt, hasCalled, clockAheadMs } = readFacts(prepareStatements(db))
  const value = (text: string, ...values: unknown[]) =>
    db
      .prepare(text)
      .pluck()
      .get(...values)
  const lastId = (table: string, column: string) =>
    value(
      `SELECT MAX(COALESCE((SELECT seq FROM sqlite_sequence WHERE name = ?), 0),
      COALESCE((SELECT MAX(${column}) FROM ${table}), 0))`,
      table,
    ) as number
  return {
    namespace,
    incarnation,
    highWaterAt,
    hasCalled,
    clockAheadMs,
    hasDoubt:
      value(`SELECT EXISTS (SELECT 1 FROM task_state WHERE state = 'invoking') OR EXISTS (SELECT 1 FROM task_state
      WHERE state = 'unknown') OR EXISTS (SELECT 1 FROM task_state WHERE state = 'held')`) === 1,
    lastIds: {
      requests: lastId('requests', 'request_id'),
      events: lastId('events', 'event_id'),
      orphans: lastId('orphans', 'orphan_id'),
    },
    rows: Object.fromEntries(tables.map(({ name }) => [name, value(`SELECT COUNT(*) FROM ${name}`) as number])),
    setAside: whereTo(db),
  }
}

function whereTo(db: Connection): SetAside | null {
  return isSetAside(readSchemaVersion(db)) ? readSetAside(db) : null
}

/** Whatever a later schema adds must be copied too, or nothing is. */
function refuseUncopied(db: Connection, tables: readonly CopiedTable[]): void {
  const found = db
    .prepare(
      `SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_info(t.name) c
       WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' AND t.name <> 'store' ORDER BY 1`,
    )
    .pluck()
    .all() as string[]
  const known = tables.flatMap(({ name, columns }) => columns.map((column) => `${name}.${column}`)).toSorted()
  invariant(JSON.stringify(found) === JSON.stringify(known), 'a copy would leave columns behind')
}

function setAside(held: Connection, path: string, { copyId, to, now, actor }: SetAsideOrder): void {
  refuseSpilled(path)
  const sql = prepareStatements(held)
  const realPath = realpathSync(path)
  const gate = createCallGate(sql, realPath)
  held
    .transaction(() => {
      if (isSetAside(readSchemaVersion(held))) return
      // What it has forgotten, the copy would not even know to have forgotten.
      refuseForeign(gate.origin(), path)
      refuseLeased(held, path, now)
      // A copy of the file that was made before is behind its record from here on.
      sql.raiseHighWater.run({ by: 0, now: readFacts(sql).highWaterAt + 1 })
      sql.insertEvent.run(null, null, now, COPIED_EVENT, null, null, null, actor, null, JSON.stringify({ copyId, to }))
      held.prepare('UPDATE store SET schema_version = schema_version + ? WHERE id = 1').run(SET_ASIDE)
    })
    .immediate()
  if (hasRecord(realPath)) gate.restart()
}

/** Answers that a full disk kept out of the store are in no table. */
function refuseSpilled(path: string): void {
  const realPath = realpathSync(path)
  const spilled = [...new Set([path, realPath])].flatMap((beside) =>
    readdirSync(dirname(beside)).filter((name) => name.startsWith(`${basename(beside)}.spill-`)),
  )
  if (spilled.length === 0) return
  throw new OnceishError(
    'COPY_REFUSED',
    `beside ${path} are answers that are not in it yet (${spilled.join(', ')}): let a worker take them over first ("onceish recover" does). Nothing was changed`,
  )
}

function refuseLeased(db: Connection, path: string, now: number): void {
  const leased = db
    .prepare(
      `SELECT COUNT(*) AS rows, MAX(lease_until) AS until, MIN(lease_owner) AS owner FROM task_state WHERE lease_until > ?
         AND (state = 'invoking' OR state = 'unknown' OR (state = 'submitted' AND next_check_at IS NOT NULL))`,
    )
    .get(now) as { rows: number; until: number; owner: string }
  if (leased.rows === 0) return
  throw new OnceishError(
    'STORE_IN_USE',
    `${leased.rows} requests of ${path} are leased by a worker (${leased.owner}) until ${new Date(leased.until).toISOString()}: stop it, or wait until then where it is gone. Nothing was changed`,
    { details: { ...leased } },
  )
}

function takeBack(held: Connection, { now, actor, mayHaveCalled }: TakeBackOrder): void {
  const sql = prepareStatements(held)
  held
    .transaction(() => {
      if (!isSetAside(readSchemaVersion(held))) return
      const { to } = readSetAside(held) ?? {}
      if (mayHaveCalled) {
        // As a copy that was put back: it has forgotten what the other store has called.
        sql.setIncarnation.run(randomUUID())
        held.prepare('UPDATE store SET has_called = 1 WHERE id = 1').run()
      }
      const detail = JSON.stringify({ from: to, mayHaveCalled })
      sql.insertEvent.run(null, null, now, UNDONE_EVENT, null, null, null, actor, null, detail)
      held.prepare('UPDATE store SET schema_version = schema_version - ? WHERE id = 1').run(SET_ASIDE)
    })
    .immediate()
}

interface Reader {
  readonly first: Database.Statement
  readonly after: Database.Statement
  readonly hashAt: number
  /** Where in a row its key stands, and whether that is bytes. */
  readonly key: readonly { readonly at: number; readonly isBytes: boolean }[]
}

/** By the primary key of SQLite's own table, whose order a page costs nothing to go on in. */
function readerOf(db: Connection, { name: table, columns }: CopiedTable): Reader {
  const key = db.prepare('SELECT name, type FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk').all(table) as {
    name: string
    type: string
  }[]
  const names = key.map(({ name }) => name).join(', ')
  const select = (where: string) =>
    db.prepare(`SELECT ${columns.join(', ')} FROM ${table} ${where} ORDER BY ${names} LIMIT ${ROWS_A_PAGE}`).raw()
  return {
    first: select(''),
    after: select(`WHERE (${names}) > (${key.map(() => '?').join(', ')})`),
    hashAt: columns.indexOf('logical_hash'),
    key: key.map(({ name, type }) => ({ at: columns.indexOf(name), isBytes: type === 'BLOB' })),
  }
}

function readPage({ first, after, hashAt, key }: Reader, afterKey: string | null): CopiedPage {
  const rows: CopiedRow[] = []
  let chars = 0
  let last: readonly (string | number | Buffer | null)[] | null = null
  const from = afterKey === null ? null : (JSON.parse(afterKey) as (string | number)[])
  const found =
    from === null ? first.iterate() : after.iterate(...from.map((cell, i) => asStored(cell, key[i]?.isBytes)))
  for (const cells of found as Iterable<(string | number | Buffer | null)[]>) {
    last = cells
    const row = cells.map((cell, at) => copied(cell, at === hashAt))
    rows.push(row)
    for (const cell of row) if (typeof cell === 'string') chars += cell.length
    if (chars >= CHARS_A_PAGE) break
  }
  return {
    rows,
    lastKey: last === null ? null : JSON.stringify(key.map(({ at }) => copied(last?.[at] ?? null, false))),
  }
}

/** A derived logical hash is text on the other side, and bytes are what JSON can carry. */
function copied(cell: string | number | Buffer | null, isLogicalHash: boolean): CopiedCell {
  if (!Buffer.isBuffer(cell)) return cell
  return isLogicalHash ? logicalHashOf(cell) : `\\x${cell.toString('hex')}`
}

function asStored(cell: string | number, isBytes: boolean | undefined): string | number | Buffer {
  return isBytes ? Buffer.from(String(cell).slice(2), 'hex') : cell
}
