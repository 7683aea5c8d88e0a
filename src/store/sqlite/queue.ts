// A request's place in the claim order: ready when it is due, else waiting, so that future rows stay out of the claim's way.
import type { Statements } from './statements.ts'

/** By the due time and the priority that its request has by now. */
export function enterQueue(sql: Statements, requestId: number, dueAt: number, now: number): void {
  if (dueAt > now) sql.insertWaitingOf.run(requestId)
  else {
    sql.insertReadyOf.run(requestId)
    sql.enterRotationOf.run({ id: requestId })
  }
}

export interface Queued {
  readonly requestId: number
  readonly target: string
  readonly group: string | null
  readonly priority: number
}

/** @returns whether it was there. `leaveRotation` follows, once whatever comes in its place is there. */
export function leaveQueue(
  sql: Statements,
  { requestId: id, target, group, priority }: Queued,
  dueAt: number,
): boolean {
  if (sql.deleteReady.run({ target, group: group ?? '', dueAt, priority, id }).changes > 0) return true
  return sql.deleteWaiting.run(dueAt, id).changes > 0
}

/** A group that has nothing ready any more takes no turns. */
export function leaveRotation(sql: Statements, { target, group }: Pick<Queued, 'target' | 'group'>): void {
  sql.leaveRotation.run({ target, group: group ?? '' })
}
