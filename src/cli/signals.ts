// SIGINT and SIGTERM for commands that can break off cleanly.
import { EXIT } from './exit-codes.ts'

export interface Signals {
  readonly signal: AbortSignal
  /** Null: none came. */
  exitCode(): number | null
  release(): void
}

/** What was begun is left in order before the process ends. */
export function listenForSignals(): Signals {
  const abort = new AbortController()
  let code: number | null = null
  const hear = (signal: 'SIGINT' | 'SIGTERM') => {
    code ??= EXIT[signal]
    abort.abort(new Error(`ended by ${signal}`))
  }
  process.on('SIGINT', hear).on('SIGTERM', hear)
  return {
    signal: abort.signal,
    exitCode: () => code,
    release: () => void process.off('SIGINT', hear).off('SIGTERM', hear),
  }
}
