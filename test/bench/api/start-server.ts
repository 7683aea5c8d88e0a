// Starts the API as a process, so that it shares the machine with what is measured and not its event loop.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const RUN_SCRIPT = fileURLToPath(new URL('../../support/run-script.mjs', import.meta.url))
const SERVER = fileURLToPath(new URL('./server.ts', import.meta.url))

export interface Api {
  /** `http://127.0.0.1:PORT`. */
  readonly origin: string
  stop(): Promise<void>
}

export async function startApi(delayMs: number): Promise<Api> {
  const child = spawn(process.execPath, [RUN_SCRIPT, SERVER, String(delayMs)], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [port] = (await once(child.stdout, 'data')) as [Buffer]
  return {
    origin: `http://127.0.0.1:${port.toString().trim()}`,
    stop: async () => {
      const ended = once(child, 'exit')
      child.stdin.end()
      await ended
    },
  }
}
