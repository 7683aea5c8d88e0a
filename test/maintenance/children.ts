// Processes of the test's own that live until they are killed, at the latest with the test.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

interface Child {
  /** Sends SIGKILL and waits for the end. */
  kill(): Promise<void>
}

/** @param script beside this file. @returns once the script has written its first line. */
export async function startScript(script: string, ...args: string[]): Promise<Child> {
  const path = fileURLToPath(new URL(script, import.meta.url))
  const child = spawn(process.execPath, ['--import', 'jiti/register', path, ...args], {
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
