// Enqueues one request again and again, each time in a call of its own: `node burst.mjs CONFIG TIMES`. Its only line says how
// often it was new, and how often a duplicate.
import { loadConfig, openOnceish } from '../../dist/index.js'

const [file, times] = process.argv.slice(2)
const once = await openOnceish({ config: await loadConfig({ file }) })
const told = { created: 0, duplicate: 0 }
for (let i = 0; i < Number(times); i++) {
  const { deduplicated } = await once.enqueue({ target: 'job', logicalHash: 'the one', payload: { n: 1 } })
  told[deduplicated ? 'duplicate' : 'created']++
}
await once.close()
process.stdout.write(`${JSON.stringify(told)}\n`)
