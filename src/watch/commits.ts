// Tells when anything was committed, by this process or another. Asked only while somebody waits: an idle store is not
// watched.
import { POLL_MS } from '../core/limits.ts'
import type { Store } from '../store/store.ts'

export interface CommitWatch {
  /** Resolves at the next commit, when `signal` aborts, or after `withinMs`. */
  next(options: { readonly withinMs: number; readonly signal?: AbortSignal | undefined }): Promise<void>
  /** There is something new that no commit tells of. */
  wake(): void
  /** Wakes everybody for good. */
  close(): void
}

export function watchCommits(store: Store): CommitWatch {
  const committedElsewhere = store.watchCommits()
  const waiting = new Set<() => void>()
  let isClosed = false
  let poll: NodeJS.Timeout | null = null
  let stopListening: (() => void) | null = null

  function wakeAll(): void {
    for (const wake of [...waiting]) wake()
  }

  function start(): void {
    if (poll !== null) return
    stopListening = store.onCommit(wakeAll)
    poll = setInterval(() => {
      // A store in trouble wakes everybody too: the next question tells each what it is.
      committedElsewhere().then((isNew) => isNew && wakeAll(), wakeAll)
    }, POLL_MS)
  }

  function stop(): void {
    if (poll !== null) clearInterval(poll)
    stopListening?.()
    poll = null
    stopListening = null
  }

  return {
    next: ({ withinMs, signal }) =>
      new Promise((resolve) => {
        if (isClosed || signal?.aborted) {
          resolve()
          return
        }
        const timer = Number.isFinite(withinMs) ? setTimeout(() => wake(), Math.min(withinMs, 2 ** 31 - 1)) : null
        const wake = () => {
          if (timer !== null) clearTimeout(timer)
          signal?.removeEventListener('abort', wake)
          waiting.delete(wake)
          if (waiting.size === 0) stop()
          resolve()
        }
        signal?.addEventListener('abort', wake, { once: true })
        waiting.add(wake)
        start()
      }),
    wake: wakeAll,
    close: () => {
      isClosed = true
      wakeAll()
      stop()
    },
  }
}
