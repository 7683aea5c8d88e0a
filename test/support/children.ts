// Processes of the test's own that are killed: by the test, at the latest with it, or by themselves.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const RUN_SCRIPT = fileURLToPath(new URL('./run-script.mjs', import.meta.url))

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

/** Whoever lives longer never came to its point. */
const PATIENCE_MS = 40_000

/** @param order what the script does, as JSON. @returns the signal that ended it; null: it ended by itself. */
export async function deathOf(script: URL, order: object): Promise<NodeJS.Signals | null> {
  const command = [fileURLToPath(script), JSON.stringify(order)]
  const child = spawn(process.execPath, command, { stdio: ['ignore', 'inherit', 'inherit'] })
  const tooLong = setTimeout(() => child.kill('SIGTERM'), PATIENCE_MS)
  const [, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
  clearTimeout(tooLong)
  return signal
}

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}
