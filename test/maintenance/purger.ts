// A process that purges everything that has ended, and says after each step how many are gone.
import { purge } from '../../src/maintenance/purge.ts'
import { openStore } from '../../src/store/open-store.ts'

const [path = ''] = process.argv.slice(2)
const store = await openStore(path, { create: false, now: Date.now() })
await purge(
  { store, now: Date.now(), actor: 'test', keepPayloadMs: {} },
  { olderThanMs: 0, onProgress: ({ purged }) => process.stdout.write(`${purged}\n`) },
)
await store.close()
