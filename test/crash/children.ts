// Processes that are to die: started, waited for, and ended by force where they do not.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** Whoever lives longer never came to its point. */
const PATIENCE_MS = 40_000

/** @returns the signal that ended it; null: it ended by itself. */
export async function deathOf(script: string, order: object): Promise<NodeJS.Signals | null> {
  const path = fileURLToPath(new URL(script, import.meta.url))
  const child = spawn(process.execPath, [path, JSON.stringify(order)], { stdio: ['ignore', 'inherit', 'inherit'] })
  const tooLong = setTimeout(() => child.kill('SIGTERM'), PATIENCE_MS)
  const [, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
  clearTimeout(tooLong)
  return signal
}
