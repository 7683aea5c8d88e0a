// (b) From the call of `enqueue` to the arrival of the API's call, at 100 requests a second: enqueued and worked in this process,
// and enqueued here and worked in another one.
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
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
    try {
      await measureBoth(bench, api, alone, producer)
    } finally {
      await worker.stop()
      await Promise.all([alone.close(), producer.close()])
      await api.stop()
    }
  },
}

async function measureBoth(bench: Bench, api: Child, alone: Onceish, producer: Onceish): Promise<void> {
  const requests = REQUESTS[bench.size]
  const p99 = { alone: [] as number[], across: [] as number[] }
  const arm = (name: keyof typeof p99, run: () => Promise<number[]>) => async () => {
    const arrivals = await run()
    p99[name].push(quantile(arrivals, 0.99))
    return quantile(arrivals, 0.5)
  }
  const arms = {
    alone: arm('alone', async () => {
      const working = alone.startWorker()
      const arrivals = await send(api, alone, requests)
      await working.stop()
      return arrivals
    }),
    across: arm('across', () => send(api, producer, requests)),
  }
  for (const warm of Object.values(arms)) await warm()
  for (const warmed of Object.values(p99)) warmed.length = 0
  const p50 = await inTurn(bench.rounds, arms)
  bench.figure({ name: 'one process, p50', unit: 'ms', values: p50.alone, aim: { atMost: 2 } })
  bench.figure({ name: 'one process, p99', unit: 'ms', values: p99.alone, aim: { atMost: 10 } })
  bench.figure({ name: 'two processes, p50', unit: 'ms', values: p50.across, aim: { atMost: 15 } })
  bench.figure({ name: 'two processes, p99', unit: 'ms', values: p99.across })
}

let made = 0

/** @returns how long each call took to arrive, in ms. */
async function send(api: Child, once: Onceish, requests: number): Promise<number[]> {
  const enqueued: Promise<unknown>[] = []
  const startedAt = performance.now()
  for (let i = 0; i < requests; i++) {
    // Not in step with anybody's timer.
    await delay(startedAt + (i + Math.random()) * EVERY_MS - performance.now())
    const sentAtUs = Number(process.hrtime.bigint() / 1000n)
    enqueued.push(once.enqueue({ target: 'render', payload: { ...payloadOf(++made), sentAtUs } }))
  }
  await Promise.all(enqueued)
  const arrivals: number[] = []
  while (arrivals.length < requests) {
    await delay(50)
    arrivals.push(...((await api.ask('arrivals')) as number[]))
  }
  return arrivals
}
