// A process that writes without a pause until it is killed: ten requests a commit. Its first line says that it has begun.
import { openStore } from '../../src/store/open-store.ts'
import { REQUESTS_A_COMMIT, requestsFrom } from './requests.ts'

const [path = ''] = process.argv.slice(2)
const store = await openStore(path, { create: false, now: Date.now() })
for (let n = 0; ; n++) {
  await store.enqueue(requestsFrom(n * REQUESTS_A_COMMIT, REQUESTS_A_COMMIT), Date.now())
  if (n === 0) process.stdout.write('writing\n')
  await new Promise((resolve) => setImmediate(resolve))
}
