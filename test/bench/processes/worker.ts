// A worker that runs until it is disconnected: worker.ts STORE ORIGIN. Asked anything, it tells the microseconds of CPU that its
// process has used so far.
import { loadBuilt } from '../built.ts'
import { configOf } from '../requests.ts'

const [store = '', origin = ''] = process.argv.slice(2)
const { openOnceish } = await loadBuilt()
const once = await openOnceish({ config: configOf(store, origin) })
once.startWorker()
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send?.(user + system)
})
process.on('disconnect', () => void once.close())
process.send?.('ready')
