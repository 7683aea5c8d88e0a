// A worker that works until nothing is owed and tells each task id on stdout as soon as it is told of it.
import { loadConfig, openOnceish } from '../../dist/index.js'

const [file] = process.argv.slice(2)
const once = await openOnceish({ config: await loadConfig({ file }) })
const telling = tell(once.events())
await once.startWorker({ drain: { horizonMs: 60_000 } }).done
await once.close()
await telling

async function tell(events) {
  for await (const { kind, detail } of events) {
    if (kind === 'submitted') process.stdout.write(`submitted ${detail.taskId}\n`)
  }
}
