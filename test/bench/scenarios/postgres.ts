// (j) A worker on PostgreSQL against two job queues that keep their jobs there, doing the same HTTP work at the same concurrency, on
// one server with fsync on; what a turn costs beside a million rows; and several worker processes on one store.
import { randomBytes } from 'node:crypto'
import { Logger, makeWorkerUtils, run as runGraphile } from 'graphile-worker'
import pg from 'pg'
import PgBoss from 'pg-boss'
import { Pool } from 'undici'
import { startPostgres } from '../../support/postgres-server.ts'
import { startApi } from '../api/start-server.ts'
import { loadBuilt } from '../built.ts'
import { startProcess } from '../processes/start.ts'
import { configOf, payloadOf } from '../requests.ts'
import { inTurn, quantile, ratios } from '../rounds.ts'
import type { Bench, Scenario } from '../scenario.ts'
import { driveStore } from '../turns.ts'

const CONCURRENCY = 64
const REQUESTS = { quick: 2000, full: 10_000, huge: 20_000 }
const SHARED = { quick: 4000, full: 20_000, huge: 20_000 }
const MILLION = { quick: 50_000, full: 1_000_000, huge: 1_000_000 }
const SLOTS = 16
const TURNS = 100
const WARM = 1000
/** It tells of every job else. */
const SILENT = new Logger(() => () => {})

export const postgres: Scenario = {
  name: 'postgres',
  says: 'a worker on PostgreSQL against pg-boss and graphile-worker; turns beside a million rows; 2, 4 and 8 worker processes',
  run: async (bench) => {
    const server = await startPostgres(['-c', 'max_connections=200', '-c', 'max_wal_size=4GB'])
    try {
      await beside(bench, server.url)
      await claims(bench, server.url)
      await together(bench, server.url)
    } finally {
      await server.stop()
    }
  },
}

function newStore(url: string): string {
  return `${url}?schema=bench_${randomBytes(6).toString('hex')}`
}

async function beside(bench: Bench, url: string): Promise<void> {
  const requests = REQUESTS[bench.size]
  const api = await startApi(0)
  const pool = new Pool(api.origin, { connections: CONCURRENCY, pipelining: 1 })
  const { openOnceish } = await loadBuilt()
  const onceish = await openOnceish({ config: configOf(newStore(url), api.origin) })
  const boss = new PgBoss({ connectionString: url, schema: 'pgboss', max: 10 })
  boss.on('error', (error) => bench.say(String(error)))
  await boss.start()
  await boss.createQueue('renders')
  const utils = await makeWorkerUtils({ connectionString: url, schema: 'graphile_worker' })
  await utils.migrate()
  try {
    let made = 0
    const arms = {
      onceish: async () => {
        await onceish.enqueueMany(
          Array.from({ length: requests }, () => ({ target: 'render', payload: payloadOf(++made) })),
        )
        const startedAt = performance.now()
        const { settled } = await onceish.startWorker({ concurrency: CONCURRENCY, drain: { horizonMs: 0 } }).done
        if (settled['submitted'] !== requests) throw new Error(`of ${requests}: ${JSON.stringify(settled)}`)
        return requests / ((performance.now() - startedAt) / 1000)
      },
      // One loop that takes as many as it may call, and completes them together: pg-boss at its best.
      boss: async () => {
        await boss.insert(Array.from({ length: requests }, () => ({ name: 'renders', data: payloadOf(++made) })))
        return rateOf(requests, () => workBatches(boss, pool, CONCURRENCY))
      },
      // As many loops, each with one job: no call waits for the slowest of its batch.
      bossSingly: async () => {
        await boss.insert(Array.from({ length: requests }, () => ({ name: 'renders', data: payloadOf(++made) })))
        return rateOf(requests, async () => {
          const loops = Array.from({ length: CONCURRENCY }, () => workBatches(boss, pool, 1))
          return (await Promise.all(loops)).reduce((sum, done) => sum + done, 0)
        })
      },
      graphile: async () => {
        const payloads = JSON.stringify(Array.from({ length: requests }, () => payloadOf(++made)))
        await utils.withPgClient((client) =>
          client.query(`SELECT graphile_worker.add_job('render', p) FROM json_array_elements($1::json) p`, [payloads]),
        )
        let done = 0
        const startedAt = performance.now()
        await new Promise<void>((resolve, reject) => {
          void runGraphile({
            connectionString: url,
            schema: 'graphile_worker',
            concurrency: CONCURRENCY,
            maxPoolSize: CONCURRENCY,
            noHandleSignals: true,
            logger: SILENT,
            taskList: {
              render: async (payload) => {
                await call(pool, payload as Record<string, unknown>)
                if (++done === requests) setImmediate(() => void runner?.stop().then(resolve, reject))
              },
            },
          }).then((started) => {
            runner = started
          }, reject)
          let runner: Awaited<ReturnType<typeof runGraphile>> | undefined
        })
        return requests / ((performance.now() - startedAt) / 1000)
      },
    }
    for (const warm of Object.values(arms)) await warm()
    const { onceish: ours, boss: bosses, bossSingly, graphile } = await inTurn(bench.rounds, arms)
    bench.figure({
      name: `${CONCURRENCY} at once`,
      unit: 'of pg-boss in batches',
      values: ratios(ours, bosses),
      aim: { atLeast: 1.5 },
    })
    bench.figure({
      name: `${CONCURRENCY} at once`,
      unit: 'of pg-boss, a job at a time',
      values: ratios(ours, bossSingly),
      aim: { atLeast: 1.5 },
    })
    bench.figure({
      name: `${CONCURRENCY} at once`,
      unit: 'of graphile-worker',
      values: ratios(ours, graphile),
      aim: { atLeast: 1 },
    })
    bench.figure({ name: 'onceish', unit: 'requests/s', values: ours })
    bench.figure({ name: 'pg-boss in batches', unit: 'requests/s', values: bosses })
    bench.figure({ name: 'pg-boss, a job at a time', unit: 'requests/s', values: bossSingly })
    bench.figure({ name: 'graphile-worker', unit: 'requests/s', values: graphile })
  } finally {
    await onceish.close()
    await boss.stop({ graceful: false })
    await utils.release()
    await pool.close()
    await api.stop()
  }
}

/** @returns how many jobs it did, until there were none. */
async function workBatches(boss: PgBoss, pool: Pool, batchSize: number): Promise<number> {
  for (let done = 0; ; ) {
    const jobs = await boss.fetch('renders', { batchSize })
    if (jobs.length === 0) return done
    await Promise.all(jobs.map(({ data }) => call(pool, data as Record<string, unknown>)))
    await boss.complete(
      'renders',
      jobs.map(({ id }) => id),
    )
    done += jobs.length
  }
}

async function rateOf(requests: number, work: () => Promise<number>): Promise<number> {
  const startedAt = performance.now()
  const done = await work()
  if (done !== requests) throw new Error(`${done} of ${requests} were done`)
  return requests / ((performance.now() - startedAt) / 1000)
}

async function call(pool: Pool, payload: Record<string, unknown>): Promise<void> {
  const { statusCode, body } = await pool.request({
    method: 'POST',
    path: '/renders',
    headers: { 'content-type': 'application/json', 'idempotency-key': `bench-${String(payload['order'])}` },
    body: JSON.stringify(payload),
  })
  const { id } = (await body.json()) as { id?: unknown }
  if (statusCode !== 201 || typeof id !== 'string') throw new Error(`the API answered ${statusCode}`)
}

/** A turn of 16 settlements and 16 claims, at a thousand rows and beside a million, half of them due later. */
async function claims(bench: Bench, url: string): Promise<void> {
  const rows = MILLION[bench.size]
  const small = newStore(url)
  const large = newStore(url)
  const stores = [await driveStore({ path: small }), await driveStore({ path: large })] as const
  try {
    await fill(url, large, rows)
    for (const store of stores) await store.enqueue(1000)
    const turns = (store: (typeof stores)[number]) => async () => {
      const lasted: number[] = []
      for (let turn = 0; turn < TURNS; turn++) {
        const startedAt = performance.now()
        await store.turn(SLOTS)
        lasted.push(performance.now() - startedAt)
        if (turn % 25 === 24) await store.enqueue(25 * SLOTS)
      }
      return quantile(lasted, 0.5)
    }
    const arms = { small: turns(stores[0]), large: turns(stores[1]) }
    for (const warm of Object.values(arms)) await warm()
    const measured = await inTurn(bench.rounds, arms)
    const name = `turn beside ${rows.toLocaleString('en')} + ${rows.toLocaleString('en')} future rows: p50`
    bench.figure({ name, unit: 'of 1,000', values: ratios(measured.large, measured.small), aim: { atMost: 1.5 } })
    bench.figure({ name, unit: 'ms', values: measured.large })
    bench.figure({ name: 'turn at 1,000 rows: p50', unit: 'ms', values: measured.small })
  } finally {
    for (const store of stores) await store.close()
  }
}

/** What an enqueue would have written, past it. */
async function fill(url: string, store: string, rows: number): Promise<void> {
  const schema = new URL(store).searchParams.get('schema')
  const client = new pg.Client(url)
  await client.connect()
  const now = Date.now()
  await client.query(
    `INSERT INTO ${schema}.requests (request_id, target, logical_hash, priority, due_at, generation, dedupe, created_at, payload)
    SELECT nextval('${schema}.request_ids'), 'render', 'bulk-' || n, 0, $1::bigint + CASE WHEN n > $2 THEN 3600000 ELSE 0 END, 1, 'always', $1::bigint,
      '{"order":' || n || ',"note":"${'x'.repeat(250)}"}' FROM generate_series(1, $2 * 2) n`,
    [now, rows],
  )
  await client.query(
    `INSERT INTO ${schema}.ready SELECT target, '', 0, due_at, request_id FROM ${schema}.requests WHERE due_at <= $1`,
    [now],
  )
  await client.query(
    `INSERT INTO ${schema}.waiting SELECT due_at, request_id, target, 0 FROM ${schema}.requests WHERE due_at > $1`,
    [now],
  )
  await client.query(`ANALYZE ${schema}.requests, ${schema}.ready, ${schema}.waiting`)
  await client.end()
}

/** One store, one, two, four and eight worker processes: what they drain together. */
async function together(bench: Bench, url: string): Promise<void> {
  const requests = SHARED[bench.size]
  const api = await startApi(0)
  const { openOnceish } = await loadBuilt()
  const drain = (workers: number) => async () => {
    const store = newStore(url)
    const once = await openOnceish({ config: configOf(store, api.origin) })
    let made = 0
    const enqueue = (count: number) =>
      once.enqueueMany(Array.from({ length: count }, () => ({ target: 'render', payload: payloadOf(made++) })))
    const started = await Promise.all(
      Array.from({ length: workers }, () => startProcess('worker.ts', store, api.origin)),
    )
    // They are asked, since a status of thousands of rows costs what is measured.
    const submitted = async () => {
      const told = await Promise.all(started.map((worker) => worker.ask('submitted') as Promise<number>))
      return told.reduce((sum, count) => sum + count, 0)
    }
    const all = async () => {
      while ((await submitted()) < made) await new Promise((resolve) => setTimeout(resolve, 20))
    }
    // What a process compiles in its first second is no cost of working together.
    await enqueue(WARM * workers)
    await all()
    await once.pause('render')
    await enqueue(requests)
    const startedAt = performance.now()
    await once.resume('render')
    await all()
    const rate = requests / ((performance.now() - startedAt) / 1000)
    const calls = await callsOf(url, store)
    if (calls !== made) throw new Error(`${made} requests were called ${calls} times`)
    await Promise.all(started.map((worker) => worker.stop()))
    await once.close()
    return rate
  }
  try {
    const rates = await inTurn(bench.rounds, { one: drain(1), two: drain(2), four: drain(4), eight: drain(8) })
    for (const [name, values] of Object.entries(rates)) {
      if (name !== 'one')
        bench.figure({
          name: `${name} workers together`,
          unit: 'of one',
          values: ratios(values, rates.one),
          aim: { atLeast: 0.8 },
        })
      bench.figure({ name: `${name} worker${name === 'one' ? '' : 's'}`, unit: 'requests/s', values })
    }
  } finally {
    await api.stop()
  }
}

async function callsOf(url: string, store: string): Promise<number> {
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query(
    `SELECT SUM(attempt)::int AS calls FROM ${new URL(store).searchParams.get('schema')}.task_state`,
  )
  await client.end()
  return rows[0].calls
}
