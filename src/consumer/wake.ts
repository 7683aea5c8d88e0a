// One waiter, many reasons to wake it: a call between two waits is not lost.
export interface Wake {
  signal(): void
  /** Resolves at the next signal (or one since the last wait), or after `timeoutMs`. */
  wait(timeoutMs: number): Promise<void>
}

export function createWake(): Wake {
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
          clearTimeout(timer)
          release = null
          isSignaled = false
          resolve()
        }
        const timer = setTimeout(done, isSignaled ? 0 : Math.max(0, timeoutMs))
        release = done
      }),
  }
}
