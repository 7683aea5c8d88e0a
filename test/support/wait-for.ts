// Waits for a condition instead of a time.
import { setTimeout as sleep } from 'node:timers/promises'

const POLL_MS = 15
/** For what takes a second on an idle machine: what a busy one needs is no finding. */
const PATIENCE_MS = 20_000

/**
 * @returns the first truthy value that `condition` gives.
 * @throws Error naming `what` after `timeoutMs`, with the condition's own last error as its cause.
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  options: { timeoutMs?: number; what: string },
): Promise<Exclude<Awaited<T>, false | null | undefined | 0 | ''>> {
  const timeoutMs = options.timeoutMs ?? PATIENCE_MS
  const endsAt = performance.now() + timeoutMs
  let lastError: unknown
  for (;;) {
    try {
      const value = await condition()
      if (value) return value as Exclude<Awaited<T>, false | null | undefined | 0 | ''>
      lastError = undefined
    } catch (error) {
      lastError = error
    }
    if (performance.now() >= endsAt) {
      throw new Error(`waited ${timeoutMs} ms in vain for ${options.what}`, { cause: lastError })
    }
    await sleep(POLL_MS)
  }
}
