// A request's place in the claim order: ready when it is due, else waiting, so that future rows stay out of the claim's way.
import type { Statements } from './statements.ts'

export interface Queued {
  readonly requestId: number
  readonly target: string
  readonly priority: number
}

export function enterQueue(
  sql: Pick<Statements, 'insertReady' | 'insertWaiting'>,
  { requestId, target, priority }: Queued,
  dueAt: number,
  now: number,
): void {
  if (dueAt <= now) sql.insertReady.run(target, -priority, dueAt, requestId)
  else sql.insertWaiting.run(dueAt, requestId, target, -priority)
}

/** @returns whether it was there. */
export function leaveQueue(sql: Statements, { requestId, target, priority }: Queued, dueAt: number): boolean {
  const gone = sql.deleteReady.run(target, -priority, dueAt, requestId).changes
  return gone + sql.deleteWaiting.run(dueAt, requestId).changes > 0
}
