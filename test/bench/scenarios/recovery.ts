// (g) A sweep over rows in doubt whose tasks the API finds, from the end of their leases to the settlement, against a client that
// only asks the same with undici. Both run in this process, in turn, against the same server in another one.
import { join } from 'node:path'
import { Pool } from 'undici'
import type { Onceish, OpenConfig } from '../../../src/api.ts'
import type { Clock } from '../../../src/core/clock.ts'
import type { Store } from '../../../src/store/store.ts'
import { startApi } from '../api/start-server.ts'
import { loadModule } from '../built.ts'
import { configOf, payloadOf } from '../requests.ts'
import { inTurn, ratios } from '../rounds.ts'
import type { Scenario } from '../scenario.ts'

const CONCURRENCY = 64

export const recovery: Scenario = {
  name: 'recovery',
  says: 'a sweep that looks up and settles rows in doubt, against bare lookups by undici',
  run: async (bench) => {
    // 10^5 rows in five rounds.
    const rows = bench.size === 'quick' ? 2000 : 20_000
    const { composeOnceish } = await loadComposition()
    const api = await startApi(0)
    const pool = new Pool(api.origin, { connections: CONCURRENCY, pipelining: 1 })
    const lookup = { url: `${api.origin}/renders/{% $key %}`, taskId: '{% $response.body.id %}' }
    const config = { config: configOf(join(bench.folder, 'onceish.db'), api.origin, { lookup }) }
    const onceish = await composeOnceish(config)
    try {
      const arms = {
        recovery: async () => {
          await makeDoubt(config, rows)
          return await sweep(onceish, rows)
        },
        undici: () => lookBare(pool, rows),
      }
      // Connections are dialled and code is compiled before the first round.
      for (const warm of Object.values(arms)) await warm()
      const { recovery: ours, undici } = await inTurn(bench.rounds, arms)
      const name = `rows in doubt, ${CONCURRENCY} at once`
      bench.figure({ name, unit: 'of bare undici', values: ratios(ours, undici), aim: { atLeast: 0.6 } })
      bench.figure({ name: `${name}: recovery`, unit: 'rows/s', values: ours })
      bench.figure({ name: `${name}: undici`, unit: 'lookups/s', values: undici })
    } finally {
      await onceish.close()
      await pool.close()
      await api.stop()
    }
  },
}

function loadComposition(): Promise<typeof import('../../../src/onceish.ts')> {
  return loadModule('onceish.js')
}

let made = 0

/** What a worker leaves that died an hour ago: it has claimed every row, and nobody knows how far its calls came. */
async function makeDoubt(config: OpenConfig, rows: number): Promise<void> {
  const { composeOnceish } = await loadComposition()
  let claimed = 0
  // Its claims stand, and their calls are never made.
  const withoutCalls = (store: Store): Store => ({
    ...store,
    turn: async (input) => {
      const result = await store.turn(input)
      claimed += result.calls.length
      return { ...result, calls: [] }
    },
  })
  const dead = await composeOnceish({ ...config, clock: AN_HOUR_AGO }, { store: withoutCalls })
  await dead.enqueueMany(Array.from({ length: rows }, () => ({ target: 'render', payload: payloadOf(++made) })))
  await new Promise<void>((resolve, reject) => {
    const worker = dead.startWorker({
      concurrency: 500,
      onProgress: () => {
        if (claimed === rows) resolve(worker.stop().then(() => {}))
      },
    })
    worker.done.catch(reject)
  })
  await dead.close()
}

const AN_HOUR_AGO: Clock = {
  wallNow: () => Date.now() - 3_600_000,
  monotonicNow: () => performance.now(),
  after: (ms, wake) => {
    const timer = setTimeout(wake, ms)
    return () => clearTimeout(timer)
  },
}

/** @returns rows a second. */
async function sweep(onceish: Onceish, rows: number): Promise<number> {
  const startedAt = performance.now()
  const { adopted, settled } = await onceish.recover({ concurrency: CONCURRENCY, drain: { horizonMs: 0 } })
  const seconds = (performance.now() - startedAt) / 1000
  if (adopted !== rows) throw new Error(`of ${rows}: ${JSON.stringify(settled)}`)
  return rows / seconds
}

/** @returns lookups a second. */
async function lookBare(pool: Pool, lookups: number): Promise<number> {
  let next = 0
  const one = async () => {
    while (next < lookups) await lookOnce(pool, ++next)
  }
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: CONCURRENCY }, one))
  return lookups / ((performance.now() - startedAt) / 1000)
}

/** As its documentation shows a call. */
async function lookOnce(pool: Pool, i: number): Promise<void> {
  const { statusCode, body } = await pool.request({ method: 'GET', path: `/renders/bench-${i}` })
  const { id } = (await body.json()) as { id?: unknown }
  if (statusCode !== 200 || typeof id !== 'string') throw new Error(`the API answered ${statusCode}`)
}
