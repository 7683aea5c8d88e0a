// (a) A whole worker, from the claim to the settlement, through a target that is described as data, against a client that only
// makes the same calls with undici. Both run in this process, in turn, against the same server in another one.
import { join } from 'node:path'
import { Pool } from 'undici'
import { startApi } from '../api/start-server.ts'
import { loadBuilt } from '../built.ts'
import { configOf, payloadOf } from '../requests.ts'
import { inTurn, ratios } from '../rounds.ts'
import type { Aim, Bench, Scenario } from '../scenario.ts'

interface Setting {
  readonly delayMs: number
  readonly concurrency: number
  /** Requests a round at full size: about two seconds. */
  readonly requests: number
  readonly aim?: Aim
}

const SETTINGS: readonly Setting[] = [
  { delayMs: 20, concurrency: 16, requests: 1600, aim: { atLeast: 0.92 } },
  { delayMs: 20, concurrency: 64, requests: 6400, aim: { atLeast: 0.92 } },
  { delayMs: 20, concurrency: 256, requests: 16_000, aim: { atLeast: 0.88 } },
  { delayMs: 0, concurrency: 16, requests: 16_000 },
  { delayMs: 0, concurrency: 64, requests: 16_000, aim: { atLeast: 0.48 } },
  { delayMs: 0, concurrency: 256, requests: 16_000, aim: { atLeast: 0.7 } },
]

export const worker: Scenario = {
  name: 'worker',
  says: 'a whole worker against bare undici, at several concurrencies, against servers of 0 and 20 ms',
  run: async (bench) => {
    for (const [i, setting] of SETTINGS.entries()) await runSetting(bench, setting, join(bench.folder, `${i}.db`))
  },
}

async function runSetting(bench: Bench, setting: Setting, store: string): Promise<void> {
  const { delayMs, concurrency, aim } = setting
  const requests = bench.size === 'quick' ? setting.requests / 4 : setting.requests
  const api = await startApi(delayMs)
  const pool = new Pool(api.origin, { connections: concurrency, pipelining: 1 })
  const product = await openProduct(store, api.origin)
  try {
    const arms = {
      worker: () => product.drain(requests, concurrency),
      request: () => callBare(requests, concurrency, (i) => requestOnce(pool, i)),
    }
    // Connections are dialled and code is compiled before the first round.
    for (const warm of Object.values(arms)) await warm()
    const { worker: ours, request } = await inTurn(bench.rounds, arms)
    const name = `${delayMs === 0 ? 'instant' : `${delayMs} ms`} server, ${concurrency} at once`
    bench.figure({ name, unit: 'of bare undici', values: ratios(ours, request), ...(aim === undefined ? {} : { aim }) })
    bench.figure({ name: `${name}: worker`, unit: 'requests/s', values: ours })
    bench.figure({ name: `${name}: undici`, unit: 'requests/s', values: request })
  } finally {
    await product.close()
    await pool.close()
    await api.stop()
  }
}

interface Product {
  /** @returns requests a second. */
  drain(requests: number, concurrency: number): Promise<number>
  close(): Promise<void>
}

async function openProduct(store: string, origin: string): Promise<Product> {
  const { openOnceish } = await loadBuilt()
  const onceish = await openOnceish({ config: configOf(store, origin) })
  let made = 0
  return {
    drain: async (requests, concurrency) => {
      const batch = Array.from({ length: requests }, () => ({ target: 'render', payload: payloadOf(++made) }))
      await onceish.enqueueMany(batch)
      const startedAt = performance.now()
      const { settled } = await onceish.startWorker({ concurrency, drain: { horizonMs: 0 } }).done
      const seconds = (performance.now() - startedAt) / 1000
      if (settled['submitted'] !== requests) throw new Error(`of ${requests}: ${JSON.stringify(settled)}`)
      return requests / seconds
    },
    close: () => onceish.close(),
  }
}

/** @returns calls a second. */
async function callBare(calls: number, concurrency: number, call: (i: number) => Promise<void>): Promise<number> {
  let next = 0
  const one = async () => {
    while (next < calls) await call(++next)
  }
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: concurrency }, one))
  return calls / ((performance.now() - startedAt) / 1000)
}

/** As its documentation shows a call. */
async function requestOnce(pool: Pool, i: number): Promise<void> {
  const { statusCode, body } = await pool.request({
    method: 'POST',
    path: '/renders',
    headers: { 'content-type': 'application/json', 'idempotency-key': `bench-${i}` },
    body: JSON.stringify(payloadOf(i)),
  })
  const { id } = (await body.json()) as { id?: unknown }
  if (statusCode !== 201 || typeof id !== 'string') throw new Error(`the API answered ${statusCode}`)
}
