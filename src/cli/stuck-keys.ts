// Ordering keys that do not go on: whose turn it is, how many wait behind it, and what a person can say.
import type { RequestView, StoreStatus } from '../store/views.ts'
import { type NextAction, nextActions } from './next-actions.ts'
import { plural, relative, shorten, table } from './print.ts'

const KEY_CHARS = 40

/** Lines for people; none where every key goes on. */
export function stuckKeyLines({ stuckKeys }: StoreStatus, next: (words: string) => string): string[] {
  if (stuckKeys.length === 0) return []
  const now = Date.now()
  const rows = stuckKeys.map(({ target, orderingKey, since, followers, head }) => [
    target,
    shorten(orderingKey, KEY_CHARS),
    followers,
    `${head.requestId}, ${headWords(head)}`,
    relative(since, now),
    next(actionsOfHead(head)[0]?.words ?? `show ${head.requestId}`),
  ])
  return ['', table(['target', 'ordering key', 'waiting', 'behind', 'since', 'next'], rows)]
}

/** What a person can say of the request that the others of its key wait for. */
export function actionsOfHead(head: RequestView): readonly NextAction[] {
  const look = { words: `show ${head.requestId}`, when: 'the request of its ordering key that goes first' }
  return head.state === 'dead' ? [...nextActions(head), look] : [look, ...nextActions(head)]
}

/** `held (opaque)`. */
export function headWords({ state, reason }: Pick<RequestView, 'state' | 'reason'>): string {
  return reason === null ? state : `${state} (${reason})`
}

export function stuckWords(stuck: number): string {
  return `${plural(stuck, 'request')} wait for one of their ordering key that is in doubt, held or dead`
}
