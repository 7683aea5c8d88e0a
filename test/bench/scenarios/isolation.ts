// (i) What a target keeps of its throughput beside another that never answers, or is paused with a queue of its own, against the
// same worker with nothing beside it. All run in this process, in turn, against the same servers in others.
import { join } from 'node:path'
import type { Onceish } from '../../../src/api.ts'
import { startApi } from '../api/start-server.ts'
import { loadBuilt } from '../built.ts'
import { fillStore } from '../filled-store.ts'
import { payloadOf, targetOf } from '../requests.ts'
import { inTurn, ratios } from '../rounds.ts'
import type { Scenario } from '../scenario.ts'

const CONCURRENCY = 64
/** What an API of the field takes. */
const ANSWER_MS = 20
const NEVER_MS = 2_000_000_000
/** As many as a target may have in flight, and as many again in the queue. */
const HANGING = 2 * CONCURRENCY
const PAUSED = { quick: 100_000, full: 1_000_000, huge: 1_000_000 }
const MEASURED = { quick: 3200, full: 12_800, huge: 12_800 }

export const isolation: Scenario = {
  name: 'isolation',
  says: 'a target’s throughput beside one that never answers, and beside one that is paused with a long queue',
  run: async ({ size, rounds, folder, figure }) => {
    const [api, silent] = [await startApi(ANSWER_MS), await startApi(NEVER_MS)]
    const path = (name: string) => join(folder, `${name}.db`)
    await fillStore(path('paused'), { ready: PAUSED[size], future: 0, priorities: 1, leased: 0 })
    const open = (name: string) => openBeside(path(name), api.origin, silent.origin)
    const stores = { alone: await open('alone'), hanging: await open('hanging'), paused: await open('paused') }
    await stores.paused.pause('render')
    const requests = MEASURED[size]
    const arms = {
      alone: () => rateOf(stores.alone, requests),
      hanging: async () => {
        await enqueue(stores.hanging, 'render', HANGING)
        return rateOf(stores.hanging, requests)
      },
      paused: () => rateOf(stores.paused, requests),
    }
    try {
      // Connections are dialled and code is compiled before the first round.
      await rateOf(stores.alone, requests)
      const { alone, hanging, paused } = await inTurn(rounds, arms)
      const [unit, aim] = ['of its throughput alone', { atLeast: 0.9 }]
      figure({ name: 'beside one that never answers', unit, values: ratios(hanging, alone), aim })
      figure({ name: `beside ${PAUSED[size]} rows of one that is paused`, unit, values: ratios(paused, alone), aim })
      figure({ name: 'alone', unit: 'requests/s', values: alone })
    } finally {
      await Promise.all(Object.values(stores).map((store) => store.close()))
      await Promise.all([api.stop(), silent.stop()])
    }
  },
}

/** `probe` is measured; `render` is what stands beside it. */
async function openBeside(store: string, answering: string, silent: string): Promise<Onceish> {
  const { openOnceish } = await loadBuilt()
  const targets = { probe: targetOf(answering), render: targetOf(silent) }
  return openOnceish({ config: { store, worker: { graceMs: 0 }, targets } })
}

let made = 0

async function enqueue(store: Onceish, target: string, count: number): Promise<void> {
  await store.enqueueMany(Array.from({ length: count }, () => ({ target, payload: payloadOf(++made) })))
}

/** @returns requests a second of `probe`. */
async function rateOf(store: Onceish, requests: number): Promise<number> {
  await enqueue(store, 'probe', requests)
  const startedAt = performance.now()
  const seconds = await new Promise<number>((resolve, reject) => {
    const worker = store.startWorker({
      concurrency: CONCURRENCY,
      onProgress: ({ settled }) => {
        if (settled['submitted'] !== requests) return
        const took = (performance.now() - startedAt) / 1000
        worker.stop().then(() => resolve(took), reject)
      },
    })
    worker.done.catch(reject)
  })
  return requests / seconds
}
