// (k) What PostgreSQL keeps of rows that are gone: requests come and are worked off at a steady rate beside a standing queue, settled ones
// are purged, and in the end the tables, and what a turn costs, are as after the first tenth, or are not.
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { startPostgres } from '../../support/postgres-server.ts'
import { startApi } from '../api/start-server.ts'
import { loadBuilt } from '../built.ts'
import { configOf, payloadOf } from '../requests.ts'
import { quantile } from '../rounds.ts'
import type { Scenario } from '../scenario.ts'
import { driveStore } from '../turns.ts'

const MINUTES = { quick: 0.5, full: 10, huge: 60 }
const STANDING = 10_000
const A_SECOND = 400
const SLOTS = 16
/** What is settled goes soon, so that the first tenth has as much of it as the last. */
const PURGE_EVERY_MS = 10_000
const KEPT_MS = 20_000

export const churn: Scenario = {
  name: 'churn',
  says: `a worker on PostgreSQL beside a steady stream of ${A_SECOND} requests a second: sizes and turns at the end against the first tenth`,
  run: async (bench) => {
    const ms = MINUTES[bench.size] * 60_000
    const server = await startPostgres()
    const api = await startApi(0)
    const store = `${server.url}?schema=churn_${randomBytes(4).toString('hex')}`
    const schema = new URL(store).searchParams.get('schema') ?? ''
    const { openOnceish } = await loadBuilt()
    const config = configOf(store, api.origin)
    const targets = config['targets'] as Record<string, unknown>
    // What stands in the same tables, and is not worked off.
    const once = await openOnceish({ config: { ...config, targets: { ...targets, standing: targets['render'] } } })
    const driven = await driveStore({ path: store, targets: ['probe'] })
    const client = new pg.Client(server.url)
    await client.connect()
    let made = 0
    const enqueue = (target: string, requests: number) =>
      once.enqueueMany(Array.from({ length: requests }, () => ({ target, payload: payloadOf(++made) })))
    try {
      await once.pause('standing')
      await enqueue('standing', STANDING)
      const worker = once.startWorker({ concurrency: 64 })
      const samples: Sample[] = []
      const startedAt = performance.now()
      let purgedAt = startedAt
      for (let second = 1; performance.now() - startedAt < ms; second++) {
        await enqueue('render', A_SECOND)
        await driven.enqueue(SLOTS)
        const before = performance.now()
        await driven.turn(SLOTS)
        const turnMs = performance.now() - before
        samples.push({ at: before - startedAt, turnMs, ...(await sizesOf(client, schema)) })
        if (performance.now() - purgedAt > PURGE_EVERY_MS) {
          purgedAt = performance.now()
          await once.purge({ olderThanMs: KEPT_MS })
        }
        if (second % 60 === 0) bench.say(`churn: ${second / 60} min, ${JSON.stringify(samples.at(-1))}`)
        await delay(Math.max(0, startedAt + second * 1000 - performance.now()))
      }
      await worker.stop()
      report(samples)
    } finally {
      await client.end()
      await driven.close()
      await once.close()
      await api.stop()
      await server.stop()
    }

    function report(samples: readonly Sample[]): void {
      const early = samples.filter(({ at }) => at > ms * 0.08 && at < ms * 0.12)
      const late = samples.filter(({ at }) => at > ms * 0.9)
      const of = (some: readonly Sample[], column: keyof Sample) =>
        quantile(
          some.map((sample) => sample[column]),
          0.5,
        )
      for (const [column, name, unit] of TOLD) {
        bench.figure({ name, unit: 'of the first tenth', values: [of(late, column) / of(early, column)] })
        bench.figure({ name, unit, values: [of(late, column)] })
      }
    }
  },
}

interface Sample {
  readonly at: number
  readonly turnMs: number
  readonly queueMb: number
  readonly allMb: number
}

const TOLD: readonly (readonly [keyof Sample, name: string, unit: string])[] = [
  ['queueMb', 'the queue and its indexes', 'MB'],
  ['allMb', 'all but the ledger of hashes', 'MB'],
  ['turnMs', `a turn of ${SLOTS}: p50`, 'ms'],
]

/** Hashes stay after their requests, and so their ledger grows. */
async function sizesOf(client: pg.Client, schema: string): Promise<Pick<Sample, 'queueMb' | 'allMb'>> {
  const { rows } = await client.query(
    `SELECT sum(pg_total_relation_size(c.oid)) FILTER (WHERE relname IN ('ready', 'requests'))::float8 / 1e6 AS queue,
       sum(pg_total_relation_size(c.oid)) FILTER (WHERE relname <> 'logical_hashes')::float8 / 1e6 AS everything
     FROM pg_class c WHERE relnamespace = $1::regnamespace AND relkind = 'r'`,
    [schema],
  )
  return { queueMb: rows[0].queue, allMb: rows[0].everything }
}
