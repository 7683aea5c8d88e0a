// A worker that is killed with SIGKILL right after the commit of its first claim, before a byte has left. Run by kill.test.ts.
import { loadConfig } from '../../dist/index.js'
import { openForTest } from '../../dist/testing.js'

const [file] = process.argv.slice(2)
const once = await openForTest({
  config: await loadConfig({ file }),
  crashAt: { point: 'claim:after-commit', by: 'SIGKILL' },
})
once.startWorker()
