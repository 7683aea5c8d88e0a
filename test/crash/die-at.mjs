// A process that is killed with SIGKILL at one point of the product's own way. It gets one order as JSON: the config, the
// instant at which its clock stands, the point, and the deed on whose way the point is. Whoever survives ends with 0.
import { openForTest, virtualClock } from '../../dist/testing.js'

const { config, at, point, deed, payload, backupTo } = JSON.parse(process.argv[2])
const [target] = Object.keys(config.targets)
const die = () => process.kill(process.pid, 'SIGKILL')
const clock = virtualClock({ startAt: at })
// Half a copy is a moment of the engine's own, told by the progress of the backup.
const isHalfCopied = point === 'backup:copying'
const once = await openForTest({ config, clock, ...(isHalfCopied ? {} : { crashAt: { point, by: 'SIGKILL' } }) })

const DEEDS = {
  submit: async () => {
    await once.enqueue({ target, payload })
    await once.startWorker({ drain: { horizonMs: 1000 } }).done
  },
  recover: () => once.recover(),
  resolve: () => once.resolve(1, { kind: 'not_executed' }),
  purge: async () => {
    await DEEDS.submit()
    await once.purge({ olderThanMs: 0 })
  },
  open: () => {},
  restored: () => once.declareRestored(),
  backup: () => once.backup(backupTo, isHalfCopied ? { onProgress: die } : {}),
}
await DEEDS[deed]()
await once.close()
