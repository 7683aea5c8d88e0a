// A worker that is killed with SIGKILL at a named point, as the package's user would start one: `node die-at.mjs
// ORDER`, which is JSON.
import { loadConfig } from '../../dist/index.js'
import { openForTest } from '../../dist/testing.js'

const { file, point } = JSON.parse(process.argv[2])
const once = await openForTest({ config: await loadConfig({ file }), crashAt: { point, by: 'SIGKILL' } })
once.startWorker()
