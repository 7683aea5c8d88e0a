// A file that an earlier release has written, with rows in every state, goes on under this one.
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { ENDED_STATES } from '../../src/core/task-state.ts'
import { purge } from '../../src/maintenance/purge.ts'
import { openStore } from '../../src/store/open-store.ts'
import { SCHEMA_VERSION } from '../../src/store/sqlite/migrate.ts'
import { CORE_SCHEMA } from '../../src/store/sqlite/migrations/0001-core.ts'
import { hashRequest } from '../support/hash-request.ts'
import { openWorld } from '../support/store.ts'
import { tempDir } from '../support/temp-dir.ts'

const OWED = ['queued', 'invoking', 'unknown', 'held'] as const
const STATES = [...OWED, ...ENDED_STATES]
const TABLES = ['requests', 'ready', 'waiting', 'logical_hashes', 'task_state', 'orphans', 'events', 'targets']

/** Part of the schema of every version, as far as it matters: it names the tables that migrations write anew. */
const VIEW_OF_VERSION_1 = `CREATE VIEW request_overview AS
  SELECT requests.request_id, COALESCE(task_state.state, 'queued') AS state
  FROM requests LEFT JOIN task_state USING (request_id)`

/** One row in each state, one that was never claimed, and one that is due later. */
function writeVersion1(): string {
  const path = join(tempDir(), 'jobs.db')
  const db = new Database(path)
  db.pragma('journal_mode = WAL')
  db.exec(CORE_SCHEMA)
  db.exec(VIEW_OF_VERSION_1)
  db.exec(`INSERT INTO store VALUES (1, 1, 'namespace', 'incarnation', 900000)`)
  db.exec(`INSERT INTO targets (target, paused_at, paused_by) VALUES ('opaque', 5, 'ada')`)
  STATES.forEach((state, i) => {
    writeRow(db, i + 1, state)
  })
  writeRow(db, 50, 'ready')
  writeRow(db, 51, 'scheduled')
  db.close()
  return path
}

function writeRow(db: Database.Database, id: number, state: string): void {
  const payload = { id }
  const { logicalHash, ledgerHash } = hashRequest({ target: 'keyed', payload })
  const hash = Buffer.from(logicalHash.slice(3), 'hex')
  const isOwed = !ENDED_STATES.some((ended) => ended === state) || state === 'dead' || state === 'canceled'
  db.prepare('INSERT INTO logical_hashes VALUES (?, NULL, ?, 1)').run(ledgerHash, id)
  const dueAt = state === 'scheduled' ? 9_000_000 : 900_000
  if (isOwed) {
    db.prepare(`INSERT INTO requests VALUES (?, 'keyed', ?, 0, ?, 1, 'always', 5, ?)`).run(
      id,
      hash,
      dueAt,
      JSON.stringify(payload),
    )
  }
  if (state === 'ready' || state === 'queued') db.prepare(`INSERT INTO ready VALUES ('keyed', 0, ?, ?)`).run(dueAt, id)
  if (state === 'scheduled') db.prepare(`INSERT INTO waiting VALUES (?, ?, 'keyed', 0)`).run(dueAt, id)
  if (state === 'ready' || state === 'scheduled') return
  const isOpen = state === 'invoking' || state === 'unknown' || state === 'held'
  db.prepare(
    `INSERT INTO task_state (request_id, state, target, target_version, logical_hash, priority, task_id, version, attempt,
       nonce, generation, idempotency_key, attempts, doubtful_attempts, lease_until, started_at, next_check_at, frozen,
       created_at, updated_at)
     VALUES (?, ?, 'keyed', 'v1', ?, 0, ?, 1, 1, 'nonce', 1, 'key', 1, ?, ?, 5, ?, ?, 5, 900000)`,
  ).run(
    id,
    state,
    hash,
    isOwed ? null : `task-${id}`,
    isOpen ? '1' : '',
    state === 'invoking' ? 9_000_000 : null,
    state === 'unknown' ? 9_000_000 : null,
    isOpen ? '["POST","http://127.0.0.1/",{},true,"f",null]' : null,
  )
  db.prepare(`INSERT INTO events (request_id, at, kind, actor) VALUES (?, 5, 'note', 'test')`).run(id)
}

/** What later versions added to a row is empty. */
const ADDED: Record<string, Record<string, unknown>> = {
  requests: { ordering_key: null, group_key: null },
  ready: { group_key: '' },
}

function contents(path: string): Record<string, unknown[]> {
  const db = new Database(path)
  const rowsOf = (table: string) =>
    (db.prepare(`SELECT * FROM ${table}`).all() as object[]).map((row) => ({ ...ADDED[table], ...row }))
  const rows = Object.fromEntries(TABLES.map((table) => [table, rowsOf(table)]))
  db.close()
  return rows
}

/** What later versions add says nothing of what was there before. */
function withNewColumns(tables: Record<string, unknown[]>): Record<string, unknown[]> {
  const added = (name: string) => (name === 'requests' || name === 'task_state' ? { expires_at: null } : {})
  const widened = Object.entries(tables).map(([name, rows]) => [
    name,
    rows.map((row) => ({ ...(row as object), ...added(name) })),
  ])
  return Object.fromEntries(widened)
}

test('a version 1 file is brought up once, and no row of it changes', async () => {
  const path = writeVersion1()
  const before = withNewColumns(contents(path))
  for (let opened = 0; opened < 2; opened++) {
    const store = await openStore(path, { create: true, now: 1_000_000 })
    expect(await store.facts()).toMatchObject({
      schemaVersion: SCHEMA_VERSION,
      incarnation: 'incarnation',
      highWaterAt: 900_000,
    })
    const views = await store.list({ limit: 100 })
    expect(views.map(({ state }) => state)).toEqual(['ready', ...STATES.slice(1), 'ready', 'scheduled'])
    await store.close()
  }
  expect(contents(path)).toEqual(before)
})

test('the view for people shows what the code is shown, of every request', async () => {
  const path = writeVersion1()
  const store = await openStore(path, { create: true, now: 1_000_000 })
  const shown = (await store.list({ limit: 100 })).map(({ requestId, state, logicalHash, version }) => {
    return { request_id: requestId, state, logical_hash: logicalHash, version }
  })
  await store.close()
  const db = new Database(path, { readonly: true })
  const columns = Object.keys(shown[0] ?? {}).join(', ')
  expect(db.prepare(`SELECT ${columns} FROM request_overview ORDER BY request_id`).all()).toEqual(shown)
  db.close()
})

test('and its work goes on: calls, dedupe, doubt and purge', async () => {
  const path = writeVersion1()
  const world = await openWorld({ path })
  expect(await world.enqueue({ id: 50 })).toMatchObject({ kind: 'duplicate', requestId: 50, state: 'ready' })
  expect((await world.turn({ slots: 9 })).calls.map(({ requestId, attempt }) => [requestId, attempt])).toEqual([
    [1, 2],
    [50, 1],
  ])
  const given = { store: world.store, now: 1_000_000, actor: 'test', keepPayloadMs: { keyed: 0 } }
  const report = await purge(given, { olderThanMs: 0 })
  expect(report.byState).toEqual(Object.fromEntries(ENDED_STATES.map((state) => [state, 1])))
  expect(report.kept).toEqual({ inDoubt: 5 })
  expect(await world.enqueue({ id: STATES.indexOf('submitted') + 1 })).toMatchObject({ kind: 'inserted' })
  await world.store.close()
})

test('an ordering key begins with the first request that has one: those from before wait for nobody', async () => {
  const world = await openWorld({ path: writeVersion1() })
  for (const n of ['new', 'newer']) await world.enqueue({ n }, { orderingKey: 'a' })
  const claimed = (await world.turn({ slots: 9 })).calls.map(({ requestId }) => requestId)
  expect(claimed).toEqual([1, 50, 52])
  expect((await world.store.get(53))?.behind).toMatchObject({ requestId: 52 })
  expect((await world.store.get(3))?.orderingKey).toBeNull()
  await world.store.close()
})

test('ids go on where they were, also where every request has left', async () => {
  const path = writeVersion1()
  const db = new Database(path)
  db.exec(`DELETE FROM requests; DELETE FROM ready; DELETE FROM waiting; DELETE FROM logical_hashes`)
  db.exec(`UPDATE sqlite_sequence SET seq = 77 WHERE name = 'requests'`)
  db.close()
  const world = await openWorld({ path })
  expect(await world.enqueue({ n: 'new' })).toMatchObject({ kind: 'inserted', requestId: 78 })
  await world.store.close()
})

test('three that open it at once bring it up once', async () => {
  const path = writeVersion1()
  const stores = await Promise.all([1, 2, 3].map(() => openStore(path, { create: true, now: 1_000_000 })))
  for (const store of stores) expect(await store.facts()).toMatchObject({ schemaVersion: SCHEMA_VERSION })
  for (const store of stores) await store.close()
})

test('whoever only looks brings nothing up: workers of the older onceish would stop', async () => {
  const path = writeVersion1()
  const before = contents(path)
  await expect(openStore(path, { create: false, now: 1 })).rejects.toMatchObject({
    code: 'STORE_SCHEMA_OLDER',
    message: expect.stringContaining('onceish migrate'),
  })
  expect(contents(path)).toEqual(before)
})
