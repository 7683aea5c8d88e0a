// How long one call of the user's code may last, as an abort signal for it and as a promise for us.
import { systemClock } from '../../core/clock.ts'
import type { AbortLike } from '../target.ts'

export interface Deadline {
  /** Aborts at the deadline, or when the worker ends the call. */
  readonly signal: AbortSignal
  /** Resolves a moment after `signal` aborted, so that code which heeds it speaks first. */
  readonly over: Promise<void>
  reason(): string
  /** Until the deadline. */
  leftMs(): number
  clear(): void
}

export function createDeadline(timeoutMs: number, outer: AbortLike | undefined): Deadline {
  const startedAt = systemClock.monotonicNow()
  const own = new AbortController()
  const over = new Promise<void>((resolve) => {
    own.signal.addEventListener('abort', () => setImmediate(resolve), { once: true })
  })
  const abort = (reason: string) => own.abort(new Error(reason))
  const timer = setTimeout(() => abort(`no answer within ${timeoutMs} ms`), timeoutMs)
  const onOuter = () => abort(outer?.reason instanceof Error ? outer.reason.message : 'ended by the worker')
  if (outer?.aborted) onOuter()
  else outer?.addEventListener('abort', onOuter, { once: true })
  return {
    signal: own.signal,
    over,
    reason: () => (own.signal.reason as Error).message,
    leftMs: () => Math.max(0, timeoutMs - (systemClock.monotonicNow() - startedAt)),
    clear: () => {
      clearTimeout(timer)
      outer?.removeEventListener('abort', onOuter)
    },
  }
}
