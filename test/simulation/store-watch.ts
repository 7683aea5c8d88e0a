// The store's own file, watched from outside: triggers tell of every write that must never be, and a cheap look shows where
// each request stands. Written here is only what no worker writes: the emptying between schedules, the loss of the file, and a
// copy that is put back.
import { rmSync } from 'node:fs'
import Database from 'better-sqlite3'
import { LINE_FAULTS } from '../support/line-faults.ts'

const NEVER: Readonly<Record<string, { readonly table: string; readonly when: string }>> = {
  'a version fell': { table: 'task_state', when: 'NEW.version < OLD.version' },
  'an attempt number fell': { table: 'task_state', when: 'NEW.attempt < OLD.attempt' },
  'an attempt number was used twice': {
    table: 'task_state',
    when: `NEW.attempt = OLD.attempt AND NEW.nonce <> OLD.nonce`,
  },
  'a generation fell': { table: 'task_state', when: 'NEW.generation < OLD.generation' },
  'a counter of generations fell': { table: 'logical_hashes', when: 'NEW.generation < OLD.generation' },
  'a key changed within its generation': {
    table: 'task_state',
    when: `OLD.state IN ('invoking', 'unknown', 'held') AND NEW.generation = OLD.generation
      AND NEW.idempotency_key IS NOT OLD.idempotency_key`,
  },
  'a task id was overwritten': {
    table: 'task_state',
    when: `OLD.state = 'submitted' AND NEW.task_id IS NOT OLD.task_id`,
  },
  'a settled request was settled again': {
    table: 'task_state',
    when: `OLD.state = 'submitted' AND NEW.state = 'submitted' AND NEW.version > OLD.version`,
  },
  'a settled request was opened again': {
    table: 'task_state',
    when: `OLD.state = 'submitted' AND NEW.state NOT IN ('submitted', 'succeeded', 'failed', 'expired', 'lost')`,
  },
}

export interface Standing {
  readonly requestId: number
  readonly state: string
}

export interface Fence {
  readonly state: string
  readonly attempt: number
  readonly nonce: string
  readonly leaseUntil: number
  readonly taskId: string | null
}

/** Rows of each table, as a backup holds them. */
export type StoreCopy = ReadonlyMap<string, readonly Readonly<Record<string, unknown>>[]>

export interface StoreWatch {
  /** As a file that was just made, for the next schedule. */
  empty(now: number): void | Promise<void>
  copy(): StoreCopy
  /** The store as it was when it was copied; what tells that it was put back stays: the record of calls beside a file. */
  putBack(copy: StoreCopy): void | Promise<void>
  /** Requests that say of themselves that nothing of theirs is in doubt: queued again, dead, canceled. */
  doubtless(): readonly Standing[]
  stateOf(requestId: number): string | null
  /** Whose it is; null: it was never claimed. */
  fenceOf(requestId: number): Fence | null
  /** Null: it has none. `isReplayed`: its newest attempt sends again what was sent before. */
  deadlineOf(requestId: number): { readonly expiresAt: number; readonly isReplayed: boolean } | null
  /** Nothing waits, runs or is in doubt of what a worker can still decide. */
  isOver(): boolean
  pausedTargets(): readonly string[]
  /** How many calls of these targets run. */
  invoking(targets: readonly string[]): number
  /** Until when whoever it is was told to wait; 0: nobody has told. */
  toldUntil(scope: 'target' | 'bucket', name: string): number
  clockAheadMs(): number
  /** Of the tables of ordering keys: what is wrong with them. */
  lineFaults(): readonly string[]
  /** What was written that must never be. */
  forbidden(): readonly string[]
  close(): void
}

/** @param path of a store that is open and migrated. */
export function watchStore(path: string): StoreWatch {
  const db = new Database(path)
  // What is proved here is order, not disks: the sync has its own test.
  db.pragma('synchronous = OFF')
  db.exec('CREATE TABLE forbidden (what TEXT NOT NULL)')
  for (const [i, [what, { table, when }]] of Object.entries(NEVER).entries()) {
    db.exec(`CREATE TRIGGER never_${i} AFTER UPDATE ON ${table} WHEN ${when} BEGIN
      INSERT INTO forbidden VALUES ('${what}'); END`)
  }
  const tables = db
    .prepare(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'store'`)
    .pluck()
    .all() as string[]
  const deletions = [...tables, 'sqlite_sequence'].map((table) => db.prepare(`DELETE FROM ${table}`))
  const renew = db.prepare(
    'UPDATE store SET high_water_at = ?, has_called = 0, clock_ahead_ms = 0, incarnation = hex(randomblob(16))',
  )
  const copied = [...tables.filter((table) => table !== 'forbidden'), 'sqlite_sequence', 'store']
  const doubtless = db.prepare(
    `SELECT request_id AS requestId, state FROM task_state WHERE state IN ('queued', 'dead', 'canceled')`,
  )
  const state = db.prepare('SELECT state FROM task_state WHERE request_id = ?').pluck()
  const fence = db.prepare(
    `SELECT state, attempt, nonce, COALESCE(lease_until, 0) AS leaseUntil, task_id AS taskId FROM task_state WHERE request_id = ?`,
  )
  const deadline = db.prepare(
    `SELECT expires_at AS expiresAt, EXISTS (SELECT 1 FROM events WHERE events.request_id = task_state.request_id
       AND events.attempt = task_state.attempt AND kind = 'replay') AS isReplayed
     FROM task_state WHERE request_id = ? AND expires_at IS NOT NULL`,
  )
  const over = db
    .prepare(
      `SELECT NOT EXISTS (SELECT 1 FROM ready) AND NOT EXISTS (SELECT 1 FROM waiting)
         AND NOT EXISTS (SELECT 1 FROM task_state WHERE state IN ('invoking', 'unknown'))`,
    )
    .pluck()
  const paused = db.prepare('SELECT target FROM targets WHERE paused_at IS NOT NULL').pluck()
  const invoking = db
    .prepare(`SELECT COUNT(*) FROM task_state WHERE state = 'invoking' AND target IN (SELECT value FROM json_each(?))`)
    .pluck()
  const told = db
    .prepare(`SELECT until FROM timed_pauses WHERE scope = ? AND name = ? AND cause = 'told_to_wait'`)
    .pluck()
  const ahead = db.prepare('SELECT clock_ahead_ms FROM store').pluck()
  const lineFaults = db.prepare(LINE_FAULTS)
  const forbidden = db.prepare('SELECT DISTINCT what FROM forbidden').pluck()
  return {
    empty: db.transaction((now: number) => {
      for (const deletion of deletions) deletion.run()
      renew.run(now)
      rmSync(`${path}-calls`, { force: true })
    }).immediate,
    copy: () =>
      new Map(copied.map((table) => [table, db.prepare(`SELECT * FROM ${table}`).all() as Record<string, unknown>[]])),
    putBack: db.transaction((copy: StoreCopy) => {
      for (const [table, rows] of copy) {
        db.exec(`DELETE FROM ${table}`)
        for (const row of rows) insertInto(db, table, row)
      }
    }).immediate,
    doubtless: () => doubtless.all() as Standing[],
    stateOf: (requestId) => (state.get(requestId) as string | undefined) ?? null,
    fenceOf: (requestId) => (fence.get(requestId) as Fence | undefined) ?? null,
    deadlineOf: (requestId) => {
      const row = deadline.get(requestId) as { expiresAt: number; isReplayed: number } | undefined
      return row === undefined ? null : { expiresAt: row.expiresAt, isReplayed: row.isReplayed === 1 }
    },
    isOver: () => over.get() === 1,
    clockAheadMs: () => ahead.get() as number,
    pausedTargets: () => paused.all() as string[],
    invoking: (targets) => invoking.get(JSON.stringify(targets)) as number,
    toldUntil: (scope, name) => (told.get(scope, name) as number | undefined) ?? 0,
    lineFaults: () =>
      (lineFaults.all() as { fault: string; request_id: number }[]).map(
        (row) => `request ${row.request_id} ${row.fault}`,
      ),
    forbidden: () => forbidden.all() as string[],
    close: () => db.close(),
  }
}

export function insertInto(db: Database.Database, table: string, row: Readonly<Record<string, unknown>>): void {
  const names = Object.keys(row)
  db.prepare(`INSERT INTO ${table} (${names}) VALUES (${names.map((name) => `:${name}`)})`).run(row)
}
