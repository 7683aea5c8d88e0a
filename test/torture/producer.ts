// A process that enqueues requests FROM, FROM + 1, ... of a seed until its stdin ends, and cancels one now and then. What is
// acknowledged is said on stdout, a line each, so that whoever kills it knows what is owed: producer.ts CONFIG SEED FROM
import { createChance } from '../simulation/chance.ts'
import { waitFor } from '../support/wait-for.ts'
import { loadBuilt } from './library.ts'
import { requestOf } from './plan.ts'

const BATCH = 12
/** Workers that fall behind are waited for. */
const BACKLOG = 150
const CANCELED_SHARE = 0.25

const [file = '', seed = '', from = ''] = process.argv.slice(2)
const chance = createChance(Number(seed) + Number(from))
const { loadConfig, openOnceish } = await loadBuilt()
const once = await openOnceish({ config: await loadConfig({ file }), actor: 'producer' })
let isEnding = false
process.stdin.on('close', () => {
  isEnding = true
})
process.stdin.resume()

async function hasRoom(): Promise<boolean> {
  const { states } = await once.status()
  return isEnding || (states.ready ?? 0) + (states.scheduled ?? 0) < BACKLOG
}

for (let n = Number(from); !isEnding; ) {
  await waitFor(hasRoom, { what: 'the workers to catch up', timeoutMs: 120_000 })
  const batch = Array.from({ length: 1 + chance.below(BATCH) }, (_, i) => requestOf(Number(seed), n + i))
  const acknowledged = await once.enqueueMany(batch)
  for (const [i, { requestId }] of acknowledged.entries()) {
    process.stdout.write(`${JSON.stringify({ n: n + i, requestId })}\n`)
  }
  n += batch.length
  const unwanted = chance.is(CANCELED_SHARE) ? acknowledged[0] : undefined
  if (unwanted !== undefined) await once.cancel(unwanted.requestId)
}
await once.close()
