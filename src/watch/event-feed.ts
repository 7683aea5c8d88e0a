// What happens to requests, as an async iterator: the store's event log from any process, and of the plain happy path, which
// writes no event, what this process's workers submit.
import type { RequestEvent, Store } from '../store/store.ts'
import type { CommitWatch } from './commits.ts'

/** Where the iteration begins, and what ends it. */
export interface EventOptions {
  /** Stored events after this one; absent: what happens from now on. */
  readonly afterId?: number
  /** Ends the iteration. */
  readonly signal?: AbortSignal
}

export interface EventFeed {
  events(options?: EventOptions): AsyncIterable<RequestEvent>
  /** Told by a worker of this process after the commit. */
  tell(plain: readonly RequestEvent[]): void
  /** Ends every iteration. */
  close(): void
}

const PAGE = 500
/** What one slow reader may leave unread of the plain happy path; beyond it the oldest are dropped. */
const MAX_UNREAD = 100_000

export function createEventFeed(store: Store, commits: CommitWatch): EventFeed {
  const readers = new Set<RequestEvent[]>()
  let isClosed = false

  async function* read(
    plain: RequestEvent[],
    after: Promise<number>,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<RequestEvent> {
    try {
      let afterId = await after
      while (!isClosed && signal?.aborted !== true) {
        // Whoever commits while the page is read is heard afterwards.
        const committed = commits.next({ withinMs: Number.POSITIVE_INFINITY, signal })
        const page = await store.eventsAfter(afterId, PAGE)
        for (const event of page) {
          afterId = event.eventId
          yield event
        }
        while (plain.length > 0) yield plain.shift() as RequestEvent
        if (page.length < PAGE) await committed
      }
    } finally {
      readers.delete(plain)
    }
  }

  return {
    events: ({ afterId, signal } = {}) => {
      const plain: RequestEvent[] = []
      readers.add(plain)
      // Asked now, so that nothing between this call and the first `next` is missed.
      const after = afterId === undefined ? store.lastEventId() : Promise.resolve(afterId)
      after.catch(() => {}) // told at the first `next`
      return read(plain, after, signal)
    },
    tell: (submitted) => {
      for (const plain of readers) {
        plain.push(...submitted)
        if (plain.length > MAX_UNREAD) plain.splice(0, plain.length - MAX_UNREAD)
      }
      if (readers.size > 0) commits.wake()
    },
    close: () => {
      isClosed = true
    },
  }
}
