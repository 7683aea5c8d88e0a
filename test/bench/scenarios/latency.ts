// (e) From the call of `enqueue` to the arrival of the API's call, at 100 requests a second: enqueued and worked in this process,
// and enqueued here and worked in another one; beside them what the machine takes for a synced commit and a call by itself.
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { Pool } from 'undici'
import type { Onceish } from '../../../src/index.ts'
import { loadBuilt } from '../built.ts'
import { type Child, startProcess } from '../processes/start.ts'
import { configOf, payloadOf } from '../requests.ts'
import { inTurn, quantile } from '../rounds.ts'
import type { Bench, Scenario } from '../scenario.ts'

const EVERY_MS = 10
const REQUESTS = { quick: 150, full: 500, huge: 500 }

export const latency: Scenario = {
  name: 'latency',
  says: 'from enqueue to the arrival of the call at 100 requests/s, in one process and across two',
  run: async (bench) => {
    const api = await startProcess('arrivals.ts')
    const origin = `http://127.0.0.1:${String(api.greeting)}`
    const { openOnceish } = await loadBuilt()
    const open = (store: string) => openOnceish({ config: configOf(join(bench.folder, store), origin) })
    const [alone, producer] = [await open('one.db'), await open('two.db')]
    const worker = await startProcess('worker.ts', join(bench.folder, 'two.db'), origin)
    const bare = openBare(join(bench.folder, 'bare.db'), origin)
    try {
      await measureAll(bench, api, { alone, producer, bare })
    } finally {
      await worker.stop()
      await bare.close()
      await Promise.all([alone.close(), producer.close()])
      await api.stop()
    }
  },
}

interface Measured {
  readonly alone: Onceish
  readonly producer: Onceish
  readonly bare: Bare
}

async function measureAll(bench: Bench, api: Child, { alone, producer, bare }: Measured): Promise<void> {
  const requests = REQUESTS[bench.size]
  const p99 = { alone: [] as number[], across: [] as number[], bare: [] as number[] }
  const arm = (name: keyof typeof p99, run: () => Promise<number[]>) => async () => {
    const arrivals = await run()
    p99[name].push(quantile(arrivals, 0.99))
    return quantile(arrivals, 0.5)
  }
  const arms = {
    alone: arm('alone', async () => {
      const working = alone.startWorker()
      const arrivals = await pace(api, requests, enqueueTo(alone))
      await working.stop()
      return arrivals
    }),
    across: arm('across', () => pace(api, requests, enqueueTo(producer))),
    bare: arm('bare', () => pace(api, requests, bare.commitAndCall)),
  }
  for (const warm of Object.values(arms)) await warm()
  for (const warmed of Object.values(p99)) warmed.length = 0
  const p50 = await inTurn(bench.rounds, arms)
  bench.figure({ name: 'one process, p50', unit: 'ms', values: p50.alone, aim: { atMost: 2 } })
  bench.figure({ name: 'one process, p99', unit: 'ms', values: p99.alone, aim: { atMost: 10 } })
  bench.figure({ name: 'two processes, p50', unit: 'ms', values: p50.across, aim: { atMost: 15 } })
  bench.figure({ name: 'two processes, p99', unit: 'ms', values: p99.across })
  bench.figure({ name: 'one commit and one call, p50', unit: 'ms', values: p50.bare })
  bench.figure({ name: 'one commit and one call, p99', unit: 'ms', values: p99.bare })
}

type Send = (payload: object) => Promise<unknown>

const enqueueTo =
  (once: Onceish): Send =>
  (payload) =>
    once.enqueue({ target: 'render', payload })

interface Bare {
  readonly commitAndCall: Send
  close(): Promise<void>
}

/** The least that could be done, by a program that writes down what it is about to call. */
function openBare(path: string, origin: string): Bare {
  const db = new Database(path)
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  db.exec('CREATE TABLE calls (payload TEXT NOT NULL)')
  const insert = db.prepare('INSERT INTO calls VALUES (?)')
  const pool = new Pool(origin, { connections: 16, pipelining: 1 })
  return {
    commitAndCall: async (payload) => {
      const text = JSON.stringify(payload)
      insert.run(text)
      const { body } = await pool.request({ method: 'POST', path: '/renders', body: text })
      return body.json()
    },
    close: async () => {
      await pool.close()
      db.close()
    },
  }
}

let made = 0

/** @returns how long each call took to arrive, in ms. */
async function pace(api: Child, requests: number, send: Send): Promise<number[]> {
  const sent: Promise<unknown>[] = []
  const startedAt = performance.now()
  for (let i = 0; i < requests; i++) {
    // Not in step with anybody's timer.
    await delay(startedAt + (i + Math.random()) * EVERY_MS - performance.now())
    const sentAtUs = Number(process.hrtime.bigint() / 1000n)
    sent.push(send({ ...payloadOf(++made), sentAtUs }))
  }
  await Promise.all(sent)
  const arrivals: number[] = []
  while (arrivals.length < requests) {
    await delay(50)
    arrivals.push(...((await api.ask('arrivals')) as number[]))
  }
  return arrivals
}
