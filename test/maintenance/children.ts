// Processes of the test's own that live until they are killed, at the latest with the test.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const RUN_SCRIPT = fileURLToPath(new URL('../support/run-script.mjs', import.meta.url))

interface Child {
  /** Sends SIGKILL and waits for the end. */
  kill(): Promise<void>
}

/** @returns once the script has written its first line. */
export async function startScript(script: URL, ...args: string[]): Promise<Child> {
  const child = spawn(process.execPath, [RUN_SCRIPT, fileURLToPath(script), ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const kill = () => killed(child)
  onTestFinished(kill)
  await once(child.stdout, 'data')
  return { kill }
}

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}
