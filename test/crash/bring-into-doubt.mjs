// Requests in doubt, as a worker leaves them that is killed at `point`: each store's own worker dies there, and when all are
// dead, SIGKILL ends the process. What comes after is another process's.
import { openForTest, virtualClock } from '../../dist/testing.js'

const { configs, at, point, payload } = JSON.parse(process.argv[2])

async function die(config) {
  const once = await openForTest({ config, clock: virtualClock({ startAt: at }), crashAt: point })
  const [target] = Object.keys(config.targets)
  await once.enqueue({ target, payload })
  const error = await once.startWorker().done.then(
    () => new Error(`${target} never came to ${point}`),
    (reason) => reason,
  )
  if (error.code !== 'SIMULATED_CRASH') throw error
}

await Promise.all(configs.map(die))
process.kill(process.pid, 'SIGKILL')
