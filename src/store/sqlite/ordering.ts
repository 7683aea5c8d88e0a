// Requests of one target that share an ordering key are called one at a time, in the order of their ids. One of them has the turn:
// it alone is in the queue, is called, or is in doubt with a call to follow; the others stand in line and cost claims nothing.
// Whoever has the turn keeps it through backoff, doubt and a person's list; when it leaves, the next has it, in the same
// transaction. Nothing else may put a request with a key into `ready` or `waiting`.
import { enterQueue, leaveQueue, leaveRotation } from './queue.ts'
import type { EnqueueStatements, Statements } from './statements.ts'

export interface Ordered {
  readonly requestId: number
  readonly target: string
  readonly orderingKey: string
}

/** A new request, whose id is the highest. @returns whether it has the turn, and belongs into the queue. */
export function joinLine(sql: EnqueueStatements, ordered: Ordered, dueAt: number, now: number): boolean {
  const { target, orderingKey, requestId } = ordered
  if (sql.becomeHead.run(target, orderingKey, requestId).changes > 0) return true
  sql.follow.run(target, orderingKey, requestId, now, dueAt)
  return false
}

/**
 * A request that is to be queued again, at its place: one of a lower id than whoever has the turn takes it over, unless that one
 * is called or in doubt. @returns whether it has the turn, and belongs into the queue.
 */
export function rejoinLine(sql: Statements, ordered: Ordered, dueAt: number, now: number): boolean {
  const { target, orderingKey, requestId } = ordered
  if (sql.becomeHead.run(target, orderingKey, requestId).changes > 0) return true
  const head = sql.headOf.get(target, orderingKey) as number
  if (head === requestId) return !yieldToFirst(sql, ordered, dueAt, now)
  const headDueAt = head > requestId ? unqueueHead(sql, target, head) : null
  if (headDueAt === null) {
    sql.follow.run(target, orderingKey, requestId, now, dueAt)
    return false
  }
  sql.follow.run(target, orderingKey, head, now, headDueAt)
  sql.deleteFollower.run(target, orderingKey, requestId)
  sql.changeHead.run(requestId, target, orderingKey)
  return true
}

/** Where one of a lower id was queued again while this one was called, it goes first from here on. */
function yieldToFirst(
  sql: Statements,
  { target, orderingKey, requestId }: Ordered,
  dueAt: number,
  now: number,
): boolean {
  const first = sql.firstFollower.get(target, orderingKey) as Follower | undefined
  if (first === undefined || first.request_id > requestId || first.due_at === null) return false
  sql.follow.run(target, orderingKey, requestId, now, dueAt)
  sql.deleteFollower.run(target, orderingKey, first.request_id)
  sql.changeHead.run(first.request_id, target, orderingKey)
  enterQueue(sql, first.request_id, first.due_at, now)
  return true
}

interface Follower {
  readonly request_id: number
  readonly due_at: number | null
}

interface PlaceInQueue {
  readonly priority: number
  readonly due_at: number
  readonly group_key: string | null
}

/** @returns when it was due; null where it is not in the queue: called, in doubt, or dead. */
function unqueueHead(sql: Statements, target: string, requestId: number): number | null {
  const { priority, due_at: dueAt, group_key: group } = sql.placeInQueue.get(requestId) as PlaceInQueue
  if (!leaveQueue(sql, { requestId, target, group, priority }, dueAt)) return null
  leaveRotation(sql, { target, group })
  return dueAt
}

/** It blocks nobody any more: the next in line, if it had the turn, has it now. */
export function leaveLine(sql: Statements, { target, orderingKey, requestId }: Ordered, now: number): void {
  if (sql.deleteHead.run(target, orderingKey, requestId).changes === 0) {
    sql.deleteFollower.run(target, orderingKey, requestId)
    return
  }
  const next = sql.firstFollower.get(target, orderingKey) as Follower | undefined
  if (next === undefined) return
  sql.deleteFollower.run(target, orderingKey, next.request_id)
  sql.becomeHead.run(target, orderingKey, next.request_id)
  if (next.due_at !== null) enterQueue(sql, next.request_id, next.due_at, now)
  else sql.wakeInLine.run(now, next.request_id)
}

/** The same for a request that may have no key. */
export function leaveLineIfOrdered(sql: Statements, requestId: number, now: number): void {
  const ordered = orderedOf(sql, requestId)
  if (ordered !== null) leaveLine(sql, ordered, now)
}

export function orderedOf(sql: Statements, requestId: number): Ordered | null {
  const row = sql.orderingKeyOf.get(requestId) as { target: string; ordering_key: string } | undefined
  return row === undefined ? null : { requestId, target: row.target, orderingKey: row.ordering_key }
}

/** Another goes before it: it must not be called. */
export function waitsForTurn(sql: Statements, requestId: number): boolean {
  return sql.isBehind.get(requestId) === 1
}
