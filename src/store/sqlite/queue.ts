// A request's place in the claim order: ready when it is due, else waiting, so that future rows stay out of the claim's way.
import type { Statements } from './statements.ts'

/** By the due time and the priority that its request has by now. */
export function enterQueue(sql: Statements, requestId: number, dueAt: number, now: number): void {
  if (dueAt <= now) sql.insertReadyOf.run(requestId)
  else sql.insertWaitingOf.run(requestId)
}

interface Queued {
  readonly requestId: number
  readonly target: string
  readonly priority: number
}

/** @returns whether it was there. */
export function leaveQueue(sql: Statements, { requestId: id, target, priority }: Queued, dueAt: number): boolean {
  const gone = sql.deleteReady.run({ target, dueAt, priority, id }).changes
  return gone + sql.deleteWaiting.run(dueAt, id).changes > 0
}
