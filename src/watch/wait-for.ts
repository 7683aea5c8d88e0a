// Waits until requests have come to an end. All who wait are served by one question after a commit, so that ten thousand of
// them cost no more than their rows.
import { systemClock } from '../core/clock.ts'
import { OnceishError } from '../core/errors.ts'
import { CHECKED_LATER, checkedOptions, type Fields, oneOf, SIGNAL } from '../core/given.ts'
import type { RequestState } from '../core/task-state.ts'
import type { Store } from '../store/store.ts'
import type { RequestView } from '../store/views.ts'
import type { CommitWatch } from './commits.ts'

/** What is waited for, and how long. */
export interface WaitOptions {
  /**
   * `submitted` (the default): the API has it, or it came to another end. `finished`: its task has ended too, where the
   * target's `status` tells; else as `submitted`.
   */
  readonly until?: 'submitted' | 'finished'
  /** Real time; absent: as long as it takes. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

const FIELDS: Fields<WaitOptions> = {
  until: oneOf(['submitted', 'finished']),
  timeoutMs: CHECKED_LATER,
  signal: SIGNAL,
}

interface Waiter {
  readonly requestId: number
  readonly isOver: (view: RequestView) => boolean
  readonly resolve: (view: RequestView) => void
  readonly reject: (error: unknown) => void
}

/** States that the worker does not leave by itself: `held` and `dead` wait for a person. */
const OVER: ReadonlySet<RequestState> = new Set(['succeeded', 'failed', 'expired', 'lost', 'held', 'dead', 'canceled'])
/** Node's: 24 days, which nobody waits for in a process. */
const LONGEST_TIMER_MS = 2 ** 31 - 1
/** After a reading it rests this many times as long, so that waiting costs a tenth of the time at most. */
const RESTS_PER_READING = 10
/** Also how long the watch goes on for waiters that have ended meanwhile. */
const LONGEST_REST_MS = 250

/**
 * @param isTracked whether the target's tasks are asked about after their submission.
 * @returns waits for one request. @throws OnceishError USAGE, REQUEST_INVALID, REQUEST_NOT_FOUND, WAIT_TIMEOUT, STORE_CLOSED
 */
export function createWaitFor(store: Store, commits: CommitWatch, isTracked: (target: string) => boolean) {
  const waiters = new Set<Waiter>()
  let isServing = false

  async function serve(): Promise<void> {
    if (isServing) return
    isServing = true
    try {
      while (waiters.size > 0) {
        // Whoever commits while the rows are read is heard afterwards.
        const committed = commits.next({ withinMs: LONGEST_REST_MS })
        const startedAt = systemClock.monotonicNow()
        await ask([...waiters])
        const restMs = Math.min(LONGEST_REST_MS, (systemClock.monotonicNow() - startedAt) * RESTS_PER_READING)
        await Promise.all([committed, new Promise((resolve) => setTimeout(resolve, restMs))])
      }
    } finally {
      isServing = false
    }
  }

  async function ask(asking: readonly Waiter[]): Promise<void> {
    try {
      const ids = [...new Set(asking.map(({ requestId }) => requestId))]
      const views = new Map((await store.viewsOf(ids)).map((view) => [view.requestId, view]))
      for (const waiter of asking) answer(waiter, views.get(waiter.requestId))
    } catch (error) {
      for (const waiter of asking) waiter.reject(error)
    }
  }

  /** An ended waiter hears nothing more. */
  function answer(waiter: Waiter, view: RequestView | undefined): void {
    if (view === undefined) {
      waiter.reject(new OnceishError('REQUEST_NOT_FOUND', `there is no request ${waiter.requestId}, or it was purged`))
    } else if (waiter.isOver(view)) waiter.resolve(view)
  }

  return async function waitFor(requestId: number, options: WaitOptions = {}): Promise<RequestView> {
    const { until = 'submitted', timeoutMs, signal } = checkedOptions('options of waitFor', options, FIELDS)
    checkWait(requestId, timeoutMs)
    const isOver = ({ state, target }: RequestView) =>
      OVER.has(state) || (state === 'submitted' && (until === 'submitted' || !isTracked(target)))
    return new Promise<RequestView>((resolve, reject) => {
      const end = (settle: () => void) => {
        waiters.delete(waiter)
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
        settle()
      }
      const waiter: Waiter = {
        requestId,
        isOver,
        resolve: (view) => end(() => resolve(view)),
        reject: (error) => end(() => reject(error)),
      }
      const onAbort = () => waiter.reject(signal?.reason)
      const late = () =>
        new OnceishError('WAIT_TIMEOUT', `request ${requestId} has not come to an end within ${timeoutMs} ms`)
      const isBounded = timeoutMs !== undefined && timeoutMs <= LONGEST_TIMER_MS
      const timer = isBounded ? setTimeout(() => waiter.reject(late()), timeoutMs) : undefined
      waiters.add(waiter)
      if (signal?.aborted) onAbort()
      else signal?.addEventListener('abort', onAbort, { once: true })
      void (isServing ? ask([waiter]) : serve())
    })
  }
}

function checkWait(requestId: unknown, timeoutMs: number | undefined): void {
  if (!Number.isSafeInteger(requestId)) {
    throw new OnceishError('REQUEST_INVALID', `a request id is a whole number, not ${typeof requestId}`)
  }
  if (timeoutMs !== undefined && !(timeoutMs >= 0)) {
    throw new OnceishError('REQUEST_INVALID', `timeoutMs is a number of milliseconds, not ${String(timeoutMs)}`)
  }
}
