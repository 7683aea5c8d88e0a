// What happens to requests, as an async iterator: the store's event log from any process, and of the plain happy path, which
// writes no event, what this process's workers submit.
import { checkedOptions, type Fields, ID, SIGNAL } from '../core/given.ts'
import type { Store } from '../store/store.ts'
import type { RequestEvent } from '../store/views.ts'
import type { CommitWatch } from './commits.ts'

/** Where the iteration begins, and what ends it. */
export interface EventOptions {
  /** Stored events after this one; absent: what happens from now on. */
  readonly afterId?: number
  /** Ends the iteration. */
  readonly signal?: AbortSignal
}

const FIELDS: Fields<EventOptions> = { afterId: ID, signal: SIGNAL }

export interface EventFeed {
  /** @throws OnceishError USAGE */
  events(options?: EventOptions): AsyncIterable<RequestEvent>
  /** Told by a worker of this process after the commit; `plain` is asked for where anybody reads. */
  tell(plain: () => readonly RequestEvent[]): void
  /** Ends every iteration. */
  close(): void
}

const PAGE = 500
/** What one slow reader may leave unread of the plain happy path; beyond it the oldest are dropped. */
const MAX_UNREAD = 10_000

export function createEventFeed(store: Store, commits: CommitWatch): EventFeed {
  const readers = new Map<RequestEvent[], AbortController>()

  async function* read(
    plain: RequestEvent[],
    after: Promise<number>,
    signal: AbortSignal,
  ): AsyncGenerator<RequestEvent> {
    try {
      let afterId = await after
      while (!signal.aborted) {
        // Whoever commits while the page is read is heard afterwards.
        const committed = commits.next({ withinMs: Number.POSITIVE_INFINITY, signal })
        const page = await store.eventsAfter(afterId, PAGE)
        for (const event of page) {
          if (signal.aborted) return
          afterId = event.eventId
          yield event
        }
        while (plain.length > 0 && !signal.aborted) yield plain.shift() as RequestEvent
        if (page.length < PAGE && plain.length === 0) await committed
      }
    } finally {
      readers.get(plain)?.abort()
      readers.delete(plain)
    }
  }

  return {
    events: (options) => {
      const { afterId, signal } = checkedOptions('options of events', options, FIELDS)
      const plain: RequestEvent[] = []
      const end = new AbortController()
      readers.set(plain, end)
      // Asked now, so that nothing between this call and the first `next` is missed.
      const after = store.lastEventId().then((last) => afterId ?? last)
      after.catch(() => {}) // told at the first `next`
      const ended = signal === undefined ? end.signal : AbortSignal.any([end.signal, signal])
      const events = read(plain, after, ended)
      const leave = () => {
        end.abort()
        readers.delete(plain)
      }
      return {
        [Symbol.asyncIterator]: () => ({
          next: () => events.next(),
          // Also while a `next` waits for something to happen.
          return: () => {
            leave()
            return events.return(undefined)
          },
        }),
      }
    },
    tell: (ask) => {
      if (readers.size === 0) return
      const submitted = ask()
      for (const plain of readers.keys()) {
        plain.push(...submitted)
        if (plain.length > MAX_UNREAD) plain.splice(0, plain.length - MAX_UNREAD)
      }
      commits.wake()
    },
    close: () => {
      for (const end of readers.values()) end.abort()
    },
  }
}
