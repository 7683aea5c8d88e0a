// Enqueue inside the caller's own transaction: business rows and the request commit or vanish together.
import { spawn } from 'node:child_process'
import { once as eventOf } from 'node:events'
import { linkSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineTarget, type Onceish, openOnceish } from '../../src/index.ts'
import { lineFaults } from '../support/line-faults.ts'
import { tempDir } from '../support/temp-dir.ts'

const target = defineTarget({
  name: 'bill',
  version: '1',
  payload: z.object({ order: z.number().int() }),
  invoke: ({ payload }) => ({ taskId: `task-${payload.order}` }),
})

async function open(path: string) {
  const once = await openOnceish({ store: path, targets: [target] })
  onTestFinished(() => once.close())
  return once
}

function connect(path: string, options: Database.Options = {}): Database.Database {
  const db = new Database(path, options)
  onTestFinished(() => void db.close())
  if (!options.readonly) {
    db.pragma('synchronous = FULL')
    db.exec('CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)')
  }
  return db
}

async function shop() {
  const path = join(tempDir(), 'shop.db')
  const once = await open(path)
  const db = connect(path)
  const place = (order: number, orderingKey?: string) => {
    db.prepare('INSERT INTO orders VALUES (?)').run(order)
    return once.enqueueIn(db, { target: 'bill', payload: { order }, orderingKey })
  }
  return { path, once, db, place }
}

async function requestsOf(once: Onceish<never> | { list: Onceish['list'] }) {
  return (await once.list()).map(({ requestId, state }) => ({ requestId, state }))
}

test('what commits is enqueued, and a worker of the same process takes it', async () => {
  const { once, db, place } = await shop()
  const worker = once.startWorker()
  const { requestId, deduplicated } = db.transaction(() => place(1)).immediate()
  expect(deduplicated).toBe(false)
  expect(await once.waitFor(requestId)).toMatchObject({ state: 'submitted', taskId: 'task-1' })
  await worker.stop()
})

test('an ordering key is kept in the transaction of the caller too, and one that is rolled back leaves no place in line', async () => {
  const { path, once, db, place } = await shop()
  const gone = db.transaction(() => {
    place(1, 'ada')
    throw new Error('no')
  })
  expect(() => gone.immediate()).toThrow('no')
  db.transaction(() => {
    place(2, 'ada')
    place(3, 'ada')
  }).immediate()
  const places = (await once.list()).map(({ requestId, behind }) => [requestId, behind?.requestId ?? null])
  expect(places).toEqual([
    [1, null],
    [2, 1],
  ])
  expect(await lineFaults(path)).toEqual([])
  const worker = once.startWorker({ drain: { horizonMs: 1000 } })
  await worker.done
  expect((await once.list()).map(({ taskId }) => taskId)).toEqual(['task-2', 'task-3'])
})

test('what is rolled back was never enqueued, and its hash is free', async () => {
  const { once, db, place } = await shop()
  const rolledBack = db.transaction(() => {
    place(1)
    throw new Error('no stock')
  })
  expect(() => rolledBack.immediate()).toThrow('no stock')
  expect(db.prepare('SELECT COUNT(*) FROM orders').pluck().get()).toBe(0)
  expect(await requestsOf(once)).toEqual([])
  expect((await once.enqueue({ target: 'bill', payload: { order: 1 } })).deduplicated).toBe(false)
})

test("a duplicate and a conflict leave the caller's transaction as it was", async () => {
  const { once, db, place } = await shop()
  const first = await once.enqueue({ target: 'bill', payload: { order: 1 }, logicalHash: 'order-1' })
  db.transaction(() => {
    expect(once.enqueueIn(db, { target: 'bill', payload: { order: 1 }, logicalHash: 'order-1' })).toMatchObject({
      requestId: first.requestId,
      deduplicated: true,
    })
    expect(() => once.enqueueIn(db, { target: 'bill', payload: { order: 2 }, logicalHash: 'order-1' })).toThrow(
      expect.objectContaining({ code: 'LOGICAL_HASH_CONFLICT' }),
    )
    place(3)
  }).immediate()
  expect(await requestsOf(once)).toHaveLength(2)
  expect(db.prepare('SELECT id FROM orders').pluck().all()).toEqual([3])
})

test('an enqueue that fails in the middle leaves no half of a request, also if the caller goes on', async () => {
  const { once, db } = await shop()
  db.exec(`CREATE TRIGGER full BEFORE INSERT ON ready BEGIN SELECT RAISE(ABORT, 'disk trouble'); END`)
  db.transaction(() => {
    expect(() => once.enqueueIn(db, { target: 'bill', payload: { order: 1 } })).toThrow('disk trouble')
    db.prepare('INSERT INTO orders VALUES (1)').run()
  }).immediate()
  expect(await requestsOf(once)).toEqual([])
  expect(db.prepare('SELECT COUNT(*) FROM logical_hashes').pluck().get()).toBe(0)
  expect(db.prepare('SELECT COUNT(*) FROM orders').pluck().get()).toBe(1)
})

test('a connection that is set to BigInts, or named by another path, will do', async () => {
  const { path, once } = await shop()
  const link = join(tempDir(), 'link.db')
  symlinkSync(path, link)
  const db = connect(link)
  db.defaultSafeIntegers(true)
  db.transaction(() => {
    expect(once.enqueueIn(db, { target: 'bill', payload: { order: 1 } }).requestId).toBe(1)
    expect(once.enqueueIn(db, { target: 'bill', payload: { order: 1 } }).requestId).toBe(1)
  }).immediate()
})

test.each<[string, string, (path: string) => Database.Database]>([
  ['in no transaction', 'no transaction', (path) => connect(path)],
  ['closed', 'closed', (path) => connect(path).close()],
  ['read-only', 'read-only', (path) => connect(path, { readonly: true })],
  ['to another file', 'the store is', () => connect(join(tempDir(), 'other.db')).exec('BEGIN')],
  ['to no file', 'to no file', () => connect(':memory:').exec('BEGIN')],
  [
    'not synced',
    'synchronous = FULL',
    (path) => {
      const db = connect(path)
      db.pragma('synchronous = NORMAL')
      return db.exec('BEGIN IMMEDIATE')
    },
  ],
  ['no connection', 'no better-sqlite3', () => ({}) as Database.Database],
  [
    'one with a temporary table in the place of ours',
    'temporary tables',
    (path) =>
      connect(path).exec('CREATE TEMP TABLE logical_hashes (hash, payload_hash, request_id, generation)').exec('BEGIN'),
  ],
  [
    'one with a temporary trigger on ours',
    'temporary tables or triggers',
    (path) =>
      connect(path)
        .exec('CREATE TEMP TRIGGER t BEFORE INSERT ON main.requests BEGIN SELECT RAISE(IGNORE); END')
        .exec('BEGIN'),
  ],
])('a connection that is %s is refused', async (_, why, connectTo) => {
  const { path, once } = await shop()
  const db = connectTo(path)
  expect(() => once.enqueueIn(db, { target: 'bill', payload: { order: 1 } })).toThrow(
    expect.objectContaining({ code: 'CONNECTION_UNFIT', message: expect.stringContaining(why) }),
  )
  if (db.inTransaction) db.exec('ROLLBACK')
  expect(await requestsOf(once)).toEqual([])
})

test('a hard link is another database: its log is its own, and what it commits would be lost', async () => {
  const { path, once } = await shop()
  linkSync(path, `${path}-link`)
  const db = new Database(`${path}-link`)
  onTestFinished(() => void db.close())
  db.exec('BEGIN') // it has read nothing yet
  expect(() => once.enqueueIn(db, { target: 'bill', payload: { order: 1 } })).toThrow(
    expect.objectContaining({ code: 'CONNECTION_UNFIT', message: expect.stringContaining('the store is') }),
  )
})

test('a payload that does not fit is refused inside the transaction, and so is a schema that takes time', async () => {
  const path = join(tempDir(), 'shop.db')
  const slow = defineTarget({
    name: 'slow',
    version: '1',
    payload: z.object({ order: z.number() }).refine(async () => true),
    invoke: () => ({ taskId: 't' }),
  })
  const once = await openOnceish({ store: path, targets: [target, slow] })
  onTestFinished(() => once.close())
  const db = connect(path)
  db.transaction(() => {
    // @ts-expect-error: the wrong type, as JavaScript may give it
    expect(() => once.enqueueIn(db, { target: 'bill', payload: { order: 'one' } })).toThrow(
      expect.objectContaining({ code: 'PAYLOAD_INVALID' }),
    )
    expect(() => once.enqueueIn(db, { target: 'slow', payload: { order: 1 } })).toThrow(
      expect.objectContaining({ code: 'REQUEST_INVALID' }),
    )
  }).immediate()
  expect(await requestsOf(once)).toEqual([])
})

test('a process that is killed between the enqueue and its commit leaves neither, after it leaves both', async () => {
  const { path, once, db } = await shop()
  const script = fileURLToPath(new URL('./order-and-die.mjs', import.meta.url))
  for (const [order, moment] of [
    [1, 'before'],
    [2, 'after'],
  ] as const) {
    const child = spawn(process.execPath, [script, path, String(order), moment], {
      stdio: 'inherit',
    })
    const [, signal] = await eventOf(child, 'exit')
    expect(signal).toBe('SIGKILL')
  }
  expect(db.prepare('SELECT id FROM orders').pluck().all()).toEqual([2])
  const rows = await once.list()
  expect(rows.map(({ requestId }) => requestId)).toEqual([1])
  expect((await once.get(rows[0]?.requestId ?? 0))?.payload).toEqual({ order: 2 })
})
