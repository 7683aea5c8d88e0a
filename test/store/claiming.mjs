// A process that claims without a pause: two thousand requests whose calls are over at once.
import { defineTarget, openOnceish } from '../../dist/index.js'

const { store } = JSON.parse(process.argv[2])
const validate = (value) => ({ value })
const target = defineTarget({
  name: 'quick',
  version: '1',
  payload: { '~standard': { version: 1, vendor: 'test', validate } },
  invoke: ({ payload }) => ({ taskId: `task-${payload}` }),
})
const once = await openOnceish({ store, targets: [target] })
await once.enqueueMany(Array.from({ length: 2000 }, (_, n) => ({ target: 'quick', payload: n })))
await once.startWorker({ concurrency: 4, drain: { horizonMs: 1000 } }).done
await once.close()
