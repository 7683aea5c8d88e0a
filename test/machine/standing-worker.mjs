// A worker that stands still once: at `gate` (dialled, before the lease is asked) or `answered` (before the settle) it stops
// itself as SIGSTOP does, at `claimed` its event loop is blocked until the file `go-on` is there; else it is stopped from outside.
// It says what it is told to log, and on SIGTERM its counters, a JSON line each.
import { existsSync } from 'node:fs'
import { loadConfig } from '../../dist/index.js'
import { composeOnceish } from '../../dist/onceish.js'

/** Waiting for it blocks the event loop, and no core. */
const nobody = new Int32Array(new SharedArrayBuffer(4))

const [file, moment] = process.argv.slice(2)
let isDone = false
let answers = 0
let letGo
const isLetGo = new Promise((resolve) => {
  letGo = resolve
})

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

function standStill(at) {
  if (at !== moment || isDone) return
  isDone = true
  say({ standing: at })
  if (at === 'claimed') while (!existsSync('go-on')) Atomics.wait(nobody, 0, 0, 10)
  else stopSelf()
}

/** The signal may take effect a little later; until it has, nothing else is done. */
function stopSelf() {
  let last = performance.now()
  process.kill(process.pid, 'SIGSTOP')
  for (let now = performance.now(); now - last < 200; now = performance.now()) last = now
}

/** None of the first four reaches the worker before the last has come. */
async function allAnswered(meet) {
  if (++answers === 4) {
    meet()
    letGo()
  }
  await isLetGo
}

const target = (whole) =>
  new Proxy(whole, {
    get: (_, name) => {
      const member = Reflect.get(whole, name)
      if (name !== 'invoke') return typeof member === 'function' ? member.bind(whole) : member
      return async (prepared, options) => {
        const gate = (neededMs) => {
          standStill('gate')
          return options.gate(neededMs)
        }
        const outcome = await whole.invoke(prepared, { ...options, gate })
        if (moment === 'answered') await allAnswered(() => standStill('answered'))
        return outcome
      }
    },
  })

const keep = (level) => (_, message) => say({ level, message })
const log = { debug: () => {}, info: () => {}, warn: keep('warn'), error: keep('error') }
const once = await composeOnceish({ config: await loadConfig({ file }), log }, { target })
const worker = once.startWorker({ onProgress: ({ calls }) => calls > 0 && standStill('claimed') })
process.on('SIGTERM', async () => {
  await worker.stop()
  say({ counters: worker.counters() })
  await once.close()
})
