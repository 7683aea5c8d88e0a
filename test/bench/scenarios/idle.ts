// (g) What a worker costs that has nothing to do and watches: the CPU time of its process, with an empty store and with one in
// which much waits for later.
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { loadBuilt } from '../built.ts'
import { type Child, startProcess } from '../processes/start.ts'
import { configOf, payloadOf } from '../requests.ts'
import { inTurn } from '../rounds.ts'
import type { Scenario } from '../scenario.ts'

const WATCHED_MS = { quick: 1000, full: 4000, huge: 10_000 }
const SETTLING_MS = 1000
const WAITING = 10_000
const DAY_MS = 86_400_000
/** Nothing is called. */
const NOWHERE = 'http://127.0.0.1:9'

export const idle: Scenario = {
  name: 'idle',
  says: 'the share of a core that an idle worker takes, with nothing in its store and with 10,000 rows that wait for later',
  run: async (bench) => {
    const [none, future] = [join(bench.folder, 'none.db'), join(bench.folder, 'future.db')]
    await fill(future)
    const workers = [await startProcess('worker.ts', none, NOWHERE), await startProcess('worker.ts', future, NOWHERE)]
    try {
      await delay(SETTLING_MS)
      const [empty, waiting] = workers.map((worker) => () => shareOf(worker, WATCHED_MS[bench.size]))
      if (empty === undefined || waiting === undefined) throw new Error('a worker is missing')
      const shares = await inTurn(bench.rounds, { empty, waiting })
      const aim = { atMost: 1 }
      bench.figure({ name: 'empty store', unit: '% of a core', values: shares.empty, aim })
      bench.figure({ name: '10,000 rows for later', unit: '% of a core', values: shares.waiting, aim })
    } finally {
      await Promise.all(workers.map((worker) => worker.stop()))
    }
  },
}

async function fill(store: string): Promise<void> {
  const { openOnceish } = await loadBuilt()
  const once = await openOnceish({ config: configOf(store, NOWHERE) })
  const runAt = Date.now() + DAY_MS
  await once.enqueueMany(
    Array.from({ length: WAITING }, (_, i) => ({ target: 'render', payload: payloadOf(i), runAt: runAt + i })),
  )
  await once.close()
}

async function shareOf(worker: Child, ms: number): Promise<number> {
  const [before, startedAt] = [Number(await worker.ask('cpu')), performance.now()]
  await delay(ms)
  const usedMs = (Number(await worker.ask('cpu')) - before) / 1000
  return (usedMs / (performance.now() - startedAt)) * 100
}
