// The part of the store that one transaction is about, in memory: rows that PostgreSQL has locked for it are put in, the same rules
// run on them that run on a SQLite file, and what they changed is taken out again. So the protocol is written once.
import Database from 'better-sqlite3'
import { migrate } from '../sqlite/migrate.ts'
import { logicalHashOf, type StoredHash } from '../sqlite/rows.ts'
import { defineFunctions, prepareStatements, type Statements } from '../sqlite/statements.ts'
import { TABLES, type Table } from './tables.ts'

export type Cell = string | number | Buffer | null
export type Row = Readonly<Record<string, Cell>>
/** As PostgreSQL tells the version of a row: what is saved must still have it. */
const MARK = '^'

/** Rows by table; of `outside`, numbers of what was not loaded. */
export type Loaded = ReadonlyMap<string, readonly Row[]>

/** What a transaction has changed, by table, as `onceish.save` takes it. */
export type Changes = Readonly<Record<string, TableChanges>>

interface TableChanges {
  readonly inserted: readonly Row[]
  readonly updated: readonly Row[]
  /** Keys alone; of `ready` and `group_rotation` all that they were. */
  readonly deleted: readonly Row[]
}

export interface Slice {
  /** @throws what `work` throws; the slice is empty again in any case. */
  run<T>(
    loaded: Loaded,
    work: (sql: Statements, db: Database.Database) => T,
  ): { readonly made: T; readonly changes: Changes }
  close(): void
}

/** New rows of tables that number theirs are told by it; PostgreSQL gives them their numbers. */
const NEW_FROM = 2 ** 52

export function createSlice(): Slice {
  const db = new Database(':memory:')
  migrate(db, 'the slice', 0)
  db.exec(`DELETE FROM store; DELETE FROM sqlite_sequence;
    INSERT INTO sqlite_sequence (name, seq) VALUES ('events', ${NEW_FROM}), ('orphans', ${NEW_FROM}), ('requests', 0)`)
  db.exec(`CREATE TEMP TABLE outside (target TEXT NOT NULL PRIMARY KEY, invoking INTEGER NOT NULL) WITHOUT ROWID`)
  const sql = withOutside(db, prepareStatements(db))
  const tables = TABLES.map((table) => tableIn(db, table))
  const addStore = db.prepare(
    `INSERT INTO store (id, schema_version, namespace, incarnation, high_water_at, has_called, clock_ahead_ms)
     VALUES (1, :schema_version, :namespace, :incarnation, :high_water_at, :has_called, :clock_ahead_ms)`,
  )
  const addOutside = db.prepare('INSERT INTO outside (target, invoking) VALUES (:target, :invoking)')

  const setNextId = db.prepare(`UPDATE sqlite_sequence SET seq = ? WHERE name = 'requests'`)

  function fill(loaded: Loaded): void {
    for (const row of loaded.get('store') ?? []) addStore.run(row)
    for (const row of loaded.get('outside') ?? []) addOutside.run(row)
    for (const table of tables) table.fill(loaded.get(table.name) ?? [])
    for (const { first } of loaded.get('ids') ?? []) setNextId.run((first as number) - 1)
  }

  return {
    run: (loaded, work) => {
      db.exec('BEGIN')
      try {
        fill(loaded)
        const made = work(sql, db)
        const changes: Record<string, TableChanges> = {}
        for (const table of tables) {
          const changed = table.changes()
          if (changed !== null) changes[table.name] = changed
        }
        return { made, changes }
      } finally {
        for (const table of tables) table.forget()
        if (db.inTransaction) db.exec('ROLLBACK')
      }
    },
    close: () => db.close(),
  }
}

/** Calls that run are counted over the whole store, of which the slice holds a part. */
function withOutside(db: Database.Database, sql: Statements): Statements {
  defineFunctions(db)
  const invokingOf = db
    .prepare(
      `SELECT COALESCE((SELECT invoking FROM outside WHERE target = :target), 0)
         + (SELECT COUNT(*) FROM task_state WHERE state = 'invoking' AND target = :target)`,
    )
    .pluck()
  const invokingOfBucket = db
    .prepare(
      `SELECT COALESCE((SELECT SUM(invoking) FROM outside JOIN bucket_members USING (target) WHERE bucket = :bucket), 0)
         + (SELECT COUNT(*) FROM task_state WHERE state = 'invoking'
             AND target IN (SELECT target FROM bucket_members WHERE bucket = :bucket))`,
    )
    .pluck()
  return {
    ...sql,
    invokingOf: asking(invokingOf, 'target'),
    invokingOfBucket: asking(invokingOfBucket, 'bucket'),
  }
}

/** Takes its one parameter as the statement in whose place it stands does. */
function asking(statement: Database.Statement, name: string): Database.Statement {
  return { get: (value: unknown) => statement.get({ [name]: value }) } as unknown as Database.Statement
}

interface TableIn {
  readonly name: string
  fill(rows: readonly Row[]): void
  changes(): TableChanges | null
  forget(): void
}

function tableIn(db: Database.Database, { name, key, columns, numbered }: Table): TableIn {
  const names = Object.keys(columns)
  const add = db.prepare(`INSERT INTO ${name} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`)
  const all = db.prepare(`SELECT ${names.join(', ')} FROM ${name}`).raw()
  /** PostgreSQL numbers what is new. */
  const numberAt = numbered === undefined ? -1 : names.indexOf(numbered)
  const hashAt = names.indexOf('logical_hash')
  /** What is said of a row that is gone. */
  const told = name === 'ready' || name === 'group_rotation' ? names : key
  const keyAt = key.map((column) => names.indexOf(column))
  const keyOf = (cells: readonly Cell[]) => keyAt.map((at) => textOf(cells[at] ?? null)).join('\0')
  /** What was put in, by its key. */
  let before = new Map<string, { readonly cells: readonly Cell[]; readonly mark: Cell }>()

  return {
    name,
    fill: (rows) => {
      for (const row of rows) {
        const cells = names.map((column) => row[column] ?? null)
        const id = keyOf(cells)
        // One that two reasons have loaded.
        if (before.has(id)) continue
        before.set(id, { cells, mark: row[MARK] ?? null })
        add.run(...cells)
      }
    },
    changes: () => {
      const inserted: Row[] = []
      const updated: Row[] = []
      const gone = new Map(before)
      for (const cells of all.all() as Cell[][]) {
        if (hashAt >= 0) cells[hashAt] = logicalHashOf(cells[hashAt] as StoredHash)
        const id = keyOf(cells)
        const former = before.get(id)
        gone.delete(id)
        if (former === undefined) inserted.push(toRow(names, cells, numberAt))
        else if (!cells.every((cell, at) => isSame(cell, former.cells[at] ?? null)))
          updated.push({ ...toRow(names, cells, -1), [MARK]: former.mark })
      }
      const deleted = [...gone.values()].map(({ cells, mark }) => ({
        ...Object.fromEntries(told.map((column) => [column, saved(cells[names.indexOf(column)] ?? null)])),
        [MARK]: mark,
      }))
      const isUnchanged = inserted.length + updated.length + deleted.length === 0
      return isUnchanged ? null : { inserted, updated, deleted }
    },
    forget: () => {
      before = new Map()
    },
  }
}

/** What is null is left out: JSON without it is half as long, and means the same. */
function toRow(names: readonly string[], cells: readonly Cell[], leftOut: number): Row {
  const row: Record<string, Cell> = {}
  for (let at = 0; at < names.length; at++) {
    const cell = cells[at] ?? null
    if (cell !== null && at !== leftOut) row[names[at] as string] = saved(cell)
  }
  return row
}

/** As JSON carries it to a column of type bytea. */
function saved(cell: Cell): Cell {
  return Buffer.isBuffer(cell) ? `\\x${cell.toString('hex')}` : cell
}

function textOf(cell: Cell): string {
  return Buffer.isBuffer(cell) ? cell.toString('hex') : String(cell)
}

function isSame(a: Cell, b: Cell): boolean {
  return a === b || (Buffer.isBuffer(a) && Buffer.isBuffer(b) && a.equals(b))
}
