// A worker that kills itself with SIGKILL right after the commit of its first claim, before a byte can have left: the dial
// of a first connection takes at least one more turn of the event loop. Run by kill.test.ts.
import { loadConfig } from '../../src/config/load-config.ts'
import { openOnceish } from '../../src/onceish.ts'

const [file] = process.argv.slice(2)
const once = await openOnceish({ config: await loadConfig({ file }) })
once.startWorker({
  onProgress: ({ calls }) => {
    if (calls > 0) process.kill(process.pid, 'SIGKILL')
  },
})
