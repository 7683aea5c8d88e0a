// Enqueues by 64 at once until it is killed, and says each request that was acknowledged: a line with its number.
import { writeSync } from 'node:fs'
import { openOnceish } from '../../dist/index.js'

const [store] = process.argv.slice(2)
const target = { submit: { url: 'http://127.0.0.1:9' }, idempotency: { header: 'Idempotency-Key', rememberedFor: '24h' }, taskId: '{% $response.body.id %}' }
const once = await openOnceish({ config: { store, targets: { opaque: target } } })
let next = 0
async function enqueueOn() {
  for (;;) {
    const n = next++
    await once.enqueue({ target: 'opaque', payload: { n } })
    writeSync(1, `${n}\n`)
  }
}
await Promise.all(Array.from({ length: 64 }, enqueueOn))
