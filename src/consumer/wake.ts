// One waiter, many reasons to wake it: a call between two waits is not lost.
import type { Clock } from '../core/clock.ts'

export interface Wake {
  signal(): void
  /** Resolves at the next signal (or one since the last wait), or after `timeoutMs`. */
  wait(timeoutMs: number): Promise<void>
}

export function createWake(clock: Clock): Wake {
  let isSignaled = false
  let release: (() => void) | null = null
  return {
    signal: () => {
      isSignaled = true
      release?.()
    },
    wait: (timeoutMs) =>
      new Promise((resolve) => {
        const done = () => {
          callOff()
          release = null
          isSignaled = false
          resolve()
        }
        const callOff = clock.after(isSignaled ? 0 : Math.max(0, timeoutMs), done)
        release = done
      }),
  }
}
