// A worker that runs until it is disconnected: worker.ts STORE ORIGIN. Asked for `submitted`, it tells how many it has; asked for `cpu`,
// the microseconds that its process has used so far.
import { loadBuilt } from '../built.ts'
import { configOf } from '../requests.ts'

const [store = '', origin = ''] = process.argv.slice(2)
const { openOnceish } = await loadBuilt()
const once = await openOnceish({ config: configOf(store, origin) })
const worker = once.startWorker()
process.on('message', (question) => {
  const { user, system } = process.cpuUsage()
  process.send?.(question === 'submitted' ? (worker.report().settled['submitted'] ?? 0) : user + system)
})
process.on('disconnect', () => void once.close())
process.send?.('ready')
