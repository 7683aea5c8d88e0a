// Enqueue inside the caller's own transaction on PostgreSQL: business rows and the request commit or vanish together.
import { spawn } from 'node:child_process'
import { once as eventOf } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { type CallerClient, defineTarget, type Onceish, openOnceish } from '../../src/index.ts'
import { askStore } from '../support/ask-store.ts'
import { connect } from '../support/connect.ts'
import { newLocation } from '../support/engine.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'

const target = defineTarget({
  name: 'bill',
  version: '1',
  payload: z.object({ order: z.number().int() }),
  invoke: ({ payload }) => ({ taskId: `task-${payload.order}` }),
})

async function open(store: string) {
  const once = await openOnceish({ store, targets: [target] })
  onTestFinished(() => once.close())
  return once
}

async function shop() {
  const store = newLocation()
  const once = await open(store)
  const schema = new URL(store).searchParams.get('schema') ?? ''
  const client = await connect(store)
  await client.query(`CREATE TABLE ${schema}.orders (id integer PRIMARY KEY)`)
  const transaction = async <T>(work: () => Promise<T>, begin = 'BEGIN'): Promise<T> => {
    await client.query(begin)
    try {
      const made = await work()
      await client.query('COMMIT')
      return made
    } catch (error) {
      await client.query('ROLLBACK')
      throw error
    }
  }
  const place = async (order: number, more: { orderingKey?: string; group?: string; logicalHash?: string } = {}) => {
    await client.query(`INSERT INTO ${schema}.orders VALUES ($1)`, [order])
    return once.enqueueIn(client, { target: 'bill', payload: { order }, ...more })
  }
  const orders = async () => (await askStore(store, 'SELECT id FROM orders ORDER BY id')).map(({ id }) => id)
  return { store, schema, once, client, transaction, place, orders }
}

async function requestsOf(once: Onceish<never> | { list: Onceish['list'] }) {
  return (await once.list()).map(({ requestId, state }) => ({ requestId, state }))
}

test('what commits is enqueued, and a worker takes it, told by the commit', async () => {
  const { once, transaction, place } = await shop()
  const worker = once.startWorker()
  const { requestId, deduplicated } = await transaction(() => place(1))
  expect(deduplicated).toBe(false)
  expect(await once.waitFor(requestId)).toMatchObject({ state: 'submitted', taskId: 'task-1' })
  await worker.stop()
})

test('who listens is told with the commit, and of what was rolled back not at all', async () => {
  const { store, schema, transaction, place } = await shop()
  const listener = await connect(store)
  const heard: string[] = []
  listener.on('notification', ({ payload }) => heard.push(payload ?? ''))
  await listener.query(`LISTEN "onceish_${schema}"`)
  await expect(
    transaction(async () => {
      await place(1)
      throw new Error('no stock')
    }),
  ).rejects.toThrow('no stock')
  await transaction(async () => {
    await place(2)
    await listener.query('SELECT 1')
    expect(heard).toEqual([])
  })
  await listener.query('SELECT 1')
  expect(heard).toEqual(['enqueue'])
})

test('an ordering key and a group are kept in the transaction of the caller too, and what is rolled back leaves no place', async () => {
  const { store, once, transaction, place } = await shop()
  const gone = transaction(async () => {
    await place(1, { orderingKey: 'ada', group: 'a' })
    throw new Error('no')
  })
  await expect(gone).rejects.toThrow('no')
  expect(await askStore(store, 'SELECT * FROM group_rotation')).toEqual([])
  await transaction(async () => {
    await place(2, { orderingKey: 'ada', group: 'a' })
    await place(3, { orderingKey: 'ada', group: 'a' })
  })
  const [first, second] = await once.list()
  expect(first?.behind ?? null).toBeNull()
  expect(second?.behind?.requestId).toBe(first?.requestId)
  const worker = once.startWorker({ drain: { horizonMs: 1000 } })
  await worker.done
  expect((await once.list()).map(({ taskId }) => taskId)).toEqual(['task-2', 'task-3'])
})

test('what is rolled back was never enqueued, and its hash is free', async () => {
  const { once, transaction, place, orders } = await shop()
  await expect(
    transaction(async () => {
      await place(1)
      throw new Error('no stock')
    }),
  ).rejects.toThrow('no stock')
  expect(await orders()).toEqual([])
  expect(await requestsOf(once)).toEqual([])
  expect((await once.enqueue({ target: 'bill', payload: { order: 1 } })).deduplicated).toBe(false)
})

test("a duplicate and a conflict leave the caller's transaction as it was", async () => {
  const { once, client, transaction, place, orders } = await shop()
  const first = await once.enqueue({ target: 'bill', payload: { order: 1 }, logicalHash: 'order-1' })
  await transaction(async () => {
    const again = await once.enqueueIn(client, { target: 'bill', payload: { order: 1 }, logicalHash: 'order-1' })
    expect(again).toMatchObject({ requestId: first.requestId, deduplicated: true })
    await expect(
      once.enqueueIn(client, { target: 'bill', payload: { order: 2 }, logicalHash: 'order-1' }),
    ).rejects.toMatchObject({ code: 'LOGICAL_HASH_CONFLICT' })
    const own = await place(3)
    // Its own, which nobody else sees yet.
    expect(await once.enqueueIn(client, { target: 'bill', payload: { order: 3 } })).toMatchObject({
      requestId: own.requestId,
      deduplicated: true,
    })
  })
  expect(await requestsOf(once)).toHaveLength(2)
  expect(await orders()).toEqual([3])
})

test('of two transactions with the same request the second waits for the first, and finds its request or makes its own', async () => {
  const { store, once, client, transaction } = await shop()
  const other = await connect(store)
  const bill = { target: 'bill', payload: { order: 1 } } as const
  for (const end of ['ROLLBACK', 'COMMIT']) {
    await other.query('BEGIN')
    const first = await once.enqueueIn(other, bill)
    const second = transaction(() => once.enqueueIn(client, bill))
    await untilWaiting(store)
    await other.query(end)
    expect(await second).toMatchObject(
      end === 'COMMIT' ? { requestId: first.requestId, deduplicated: true } : { deduplicated: false },
    )
    await askStore(store, 'DELETE FROM logical_hashes')
  }
})

test('at a stricter isolation the whole transaction is to be done again, and the caller is told so', async () => {
  const { store, once, client, transaction } = await shop()
  const other = await connect(store)
  const bill = { target: 'bill', payload: { order: 1 } } as const
  await other.query('BEGIN')
  const first = await once.enqueueIn(other, bill)
  const serializable = () => transaction(() => once.enqueueIn(client, bill), 'BEGIN ISOLATION LEVEL SERIALIZABLE')
  const second = serializable()
  const refused = expect(second).rejects.toMatchObject({
    code: 'STORE_BUSY',
    message: expect.stringContaining('do the whole transaction again'),
  })
  await untilWaiting(store)
  await other.query('COMMIT')
  await refused
  expect(await serializable()).toMatchObject({ requestId: first.requestId, deduplicated: true })
})

async function untilWaiting(store: string): Promise<void> {
  const waiting = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`
  while ((await askStore(store, waiting)).length === 0) await new Promise((resolve) => setImmediate(resolve))
}

test('an enqueue that fails in the middle leaves no half of a request, also if the caller goes on', async () => {
  const { store, schema, once, client, transaction, orders } = await shop()
  await askStore(
    store,
    `CREATE FUNCTION ${schema}.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'disk trouble'; END $$`,
  )
  await askStore(
    store,
    `CREATE TRIGGER full_disk BEFORE INSERT ON ready FOR EACH ROW EXECUTE FUNCTION ${schema}.fail()`,
  )
  await transaction(async () => {
    await expect(once.enqueueIn(client, { target: 'bill', payload: { order: 1 } })).rejects.toThrow('disk trouble')
    await client.query(`INSERT INTO ${schema}.orders VALUES (1)`)
  })
  expect(await requestsOf(once)).toEqual([])
  expect(await askStore(store, 'SELECT * FROM logical_hashes')).toEqual([])
  expect(await orders()).toEqual([1])
})

test('a client with parsers and a search path of its own, and one of a pool, will do', async () => {
  const { store, once } = await shop()
  const types = { getTypeParser: () => (text: string) => `parsed ${text}` } as unknown as pg.CustomTypesConfig
  const plain = { getTypeParser: () => (text: string) => text } as unknown as pg.CustomTypesConfig
  const odd = await connect(store, { types: plain })
  await odd.query('BEGIN')
  await odd.query('SET LOCAL search_path = pg_temp')
  const first = await once.enqueueIn(odd, { target: 'bill', payload: { order: 1 } })
  await odd.query('COMMIT')
  const pool = new pg.Pool({ connectionString: store.split('?')[0], max: 1 })
  onTestFinished(() => pool.end())
  const pooled = await pool.connect()
  await pooled.query('BEGIN')
  expect(await once.enqueueIn(pooled, { target: 'bill', payload: { order: 1 } })).toMatchObject({
    requestId: first.requestId,
    deduplicated: true,
  })
  await pooled.query('COMMIT')
  pooled.release()
  // What is no answer of a server is told, and enqueues nothing.
  const lying = await connect(store, { types })
  await lying.query('BEGIN')
  await expect(once.enqueueIn(lying, { target: 'bill', payload: { order: 2 } })).rejects.toThrow()
  await lying.query('COMMIT')
  expect(await requestsOf(once)).toHaveLength(1)
})

test('a transaction that would not wait for its commit does, and only that one', async () => {
  const { client, transaction, place } = await shop()
  const setting = async () =>
    (await client.query<{ synchronous_commit: string }>('SHOW synchronous_commit')).rows[0]?.synchronous_commit
  await client.query('SET synchronous_commit = off')
  await transaction(async () => {
    await place(1)
    expect(await setting()).toBe('on')
  })
  expect(await setting()).toBe('off')
})

type Unfit = (store: string) => Promise<unknown>
const begun = async (client: pg.Client, begin = 'BEGIN') => {
  await client.query(begin)
  return client
}
const elsewhere = async (store: string, database: string) => {
  const admin = await connect(store)
  await admin.query(`DROP DATABASE IF EXISTS ${database}`)
  await admin.query(`CREATE DATABASE ${database}`)
  onTestFinished(async () => void (await admin.query(`DROP DATABASE ${database} WITH (FORCE)`)))
  const url = new URL(store)
  url.pathname = `/${database}`
  return url.toString()
}

test.each<[string, string, Unfit]>([
  ['in no transaction', 'no transaction', (store) => connect(store)],
  [
    'a pool',
    'a Pool never is',
    async (store) => {
      const pool = new pg.Pool({ connectionString: store.split('?')[0] })
      onTestFinished(() => pool.end())
      return pool
    },
  ],
  [
    'in a transaction that has failed',
    'has failed already',
    async (store) => {
      const client = await begun(await connect(store))
      await client.query('SELECT 1 / 0').catch(() => {})
      return client
    },
  ],
  ['read-only', 'read-only', async (store) => begun(await connect(store), 'BEGIN READ ONLY')],
  ['to another database', 'holds no store', async (store) => begun(await connect(await elsewhere(store, 'unfit_1')))],
  [
    'to another database with such a store',
    'another server',
    async (store) => {
      const other = await elsewhere(store, 'unfit_2')
      await (await openOnceish({ store: other, targets: [target] })).close()
      return begun(await connect(other))
    },
  ],
  [
    'to another server with such a store',
    'another server',
    async (store) => {
      const server = await startPostgres()
      onTestFinished(() => server.stop())
      const url = new URL(store)
      url.port = new URL(server.url).port
      await (await openOnceish({ store: url.toString(), targets: [target] })).close()
      const client = await begun(await connect(url.toString()))
      onTestFinished(() => client.end())
      return client
    },
  ],
  [
    'of a role that may not write',
    'may not',
    async (store) => {
      const schema = new URL(store).searchParams.get('schema')
      const client = await begun(await connect(store))
      await client.query(`CREATE ROLE reader_of_${schema}`)
      await client.query(`GRANT USAGE ON SCHEMA ${schema} TO reader_of_${schema}`)
      await client.query(`SET LOCAL ROLE reader_of_${schema}`)
      return client
    },
  ],
  ['a better-sqlite3 connection', 'no node-postgres client', async () => new Database(':memory:')],
  ['nothing', 'no node-postgres client', async () => null],
])('a client that is %s is refused', async (_, why, connectTo) => {
  const { store, once } = await shop()
  const client = (await connectTo(store)) as CallerClient
  await expect(async () => once.enqueueIn(client, { target: 'bill', payload: { order: 1 } })).rejects.toMatchObject({
    code: 'CONNECTION_UNFIT',
    message: expect.stringContaining(why),
  })
  if (client instanceof pg.Client) {
    // Its transaction is as it was.
    if (why !== 'has failed already' && why !== 'no transaction') await client.query('SELECT 1')
    await client.query('ROLLBACK')
  }
  expect(await requestsOf(once)).toEqual([])
})

test('a client that is closed, and one that lost its server, are told as what they are', async () => {
  const { store, once } = await shop()
  const closed = await connect(store)
  await closed.end()
  await expect(once.enqueueIn(closed, { target: 'bill', payload: { order: 1 } })).rejects.toMatchObject({
    code: expect.stringMatching(/^(CONNECTION_UNFIT|STORE_UNREACHABLE)$/),
  })
  const lost = await begun(await connect(store))
  const { rows } = await lost.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  await askStore(store, `SELECT pg_terminate_backend(${rows[0]?.pid})`)
  await expect(once.enqueueIn(lost, { target: 'bill', payload: { order: 1 } })).rejects.toMatchObject({
    code: 'STORE_UNREACHABLE',
  })
  expect(await requestsOf(once)).toEqual([])
})

test('a payload that does not fit is refused inside the transaction, and a schema may take its time', async () => {
  const { store, client, transaction } = await shop()
  const slow = defineTarget({
    name: 'slow',
    version: '1',
    payload: z.object({ order: z.number() }).refine(async () => true),
    invoke: () => ({ taskId: 't' }),
  })
  const once = await openOnceish({ store, targets: [target, slow] })
  onTestFinished(() => once.close())
  await transaction(async () => {
    await expect(
      // @ts-expect-error: the wrong type, as JavaScript may give it
      once.enqueueIn(client, { target: 'bill', payload: { order: 'one' } }),
    ).rejects.toMatchObject({ code: 'PAYLOAD_INVALID' })
    await once.enqueueIn(client, { target: 'slow', payload: { order: 1 } })
  })
  expect(await requestsOf(once)).toHaveLength(1)
})

test('a process that is killed between the enqueue and its commit leaves neither, after it leaves both', async () => {
  const { store, schema, once, orders } = await shop()
  const script = fileURLToPath(new URL('./order-and-die.mjs', import.meta.url))
  for (const [order, moment] of [
    [1, 'before'],
    [2, 'after'],
  ] as const) {
    const child = spawn(process.execPath, [script, store, `${schema}.orders`, String(order), moment], {
      stdio: 'inherit',
    })
    const [, signal] = await eventOf(child, 'exit')
    expect(signal).toBe('SIGKILL')
  }
  expect(await orders()).toEqual([2])
  const rows = await once.list()
  expect(rows).toHaveLength(1)
  expect((await once.get(rows[0]?.requestId ?? 0))?.payload).toEqual({ order: 2 })
})

test('a SQLite store takes no PostgreSQL client', async () => {
  const { client } = await shop()
  const once = await open(join(tempDir(), 'shop.db'))
  await client.query('BEGIN')
  await expect(once.enqueueIn(client, { target: 'bill', payload: { order: 1 } })).rejects.toMatchObject({
    code: 'CONNECTION_UNFIT',
  })
})

test('several at once on one client: each is there, or its caller is told', async () => {
  const { store, once, client, transaction } = await shop()
  const other = await connect(store)
  // Somebody else commits one of them in between: its savepoint is undone, and takes nobody along.
  await other.query('BEGIN')
  await once.enqueueIn(other, { target: 'bill', payload: { order: 1 } })
  const made = transaction(() =>
    Promise.all([
      once.enqueueIn(client, { target: 'bill', payload: { order: 2 } }),
      once.enqueueIn(client, { target: 'bill', payload: { order: 1 } }),
      once.enqueueIn(client, { target: 'bill', payload: { order: 3 } }),
      once.enqueueIn(client, { target: 'bill', payload: { order: 3 } }),
    ]),
  )
  const waiting = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%.save(%'`
  await waitFor(async () => (await askStore(store, waiting)).length > 0, { what: 'the one that somebody else has' })
  await other.query('COMMIT')
  expect((await made).map(({ deduplicated }) => deduplicated)).toEqual([false, true, false, true])
  const kept = (await askStore(store, 'SELECT payload FROM requests')).map(({ payload }) => payload)
  expect(kept.sort()).toEqual([1, 2, 3].map((order) => JSON.stringify({ order })))
})

test('a caller who may not have ids keeps nobody else from having some', async () => {
  const { store, schema, once, client } = await shop()
  const role = `caller_${process.pid}`
  await client.query(`CREATE ROLE ${role}; GRANT USAGE ON SCHEMA ${schema} TO ${role};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${role}`)
  onTestFinished(async () => {
    const admin = await connect(store)
    await admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })
  const poor = await connect(store)
  await poor.query(`SET ROLE ${role}`)
  await poor.query('BEGIN')
  await expect(once.enqueueIn(poor, { target: 'bill', payload: { order: 1 } })).rejects.toMatchObject({
    code: 'CONNECTION_UNFIT',
  })
  expect(await once.enqueue({ target: 'bill', payload: { order: 2 } })).toMatchObject({ deduplicated: false })
  await poor.query('ROLLBACK')
})

test('a client that writes in another encoding is refused', async () => {
  const { once, client } = await shop()
  await client.query('BEGIN')
  await client.query(`SET LOCAL client_encoding TO 'LATIN1'`)
  await expect(once.enqueueIn(client, { target: 'bill', payload: { order: 1 } })).rejects.toMatchObject({
    code: 'CONNECTION_UNFIT',
    message: expect.stringContaining('client_encoding is LATIN1'),
  })
  await client.query('ROLLBACK')
})
