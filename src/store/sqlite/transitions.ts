// Executes one transition whole: the row by compare-and-set, the queue, the ledger, the note. Runs inside a transaction.
import { invariant } from '../../core/errors.ts'
import { ledgerHashOf } from '../../core/logical-hash.ts'
import type { Dedupe } from '../../core/policy.ts'
import { fingerprintOf } from '../../core/prepared-call.ts'
import { isAllowed, type TaskState } from '../../core/task-state.ts'
import type { EventDraft, Orphan, Transition } from '../../core/transition.ts'
import type { Asked, CallOnRecord } from '../time-line.ts'
import type { Claimable } from '../turn.ts'
import { noteEvent, type Word } from './events.ts'
import { leaveLine, leaveLineIfOrdered, orderedOf, rejoinLine } from './ordering.ts'
import { enterQueue, leaveQueue, leaveRotation, type Queued } from './queue.ts'
import { fromTaskState, logicalHashOf, type StoredHash, type TaskStateRow, thaw, toTaskState } from './rows.ts'
import type { Statements } from './statements.ts'

export function readTaskState(sql: Statements, requestId: number): TaskState | null {
  const row = sql.taskState.get(requestId) as TaskStateRow | undefined
  return row === undefined ? null : toTaskState(row)
}

/** @returns the row as written. It was read in this transaction, so nobody else can have been first. */
export function applyTransition(sql: Statements, row: TaskState, transition: Transition, word: Word): TaskState {
  const { to } = transition
  invariant(
    to === row.state || isAllowed(row.state, to),
    `request ${row.requestId} cannot go from ${row.state} to ${to}`,
  )
  const window = transition.raiseGeneration ? { generation: raiseGeneration(sql, row), startedAt: null } : {}
  const versioned = { state: to, version: row.version + 1, updatedAt: word.now }
  const next: TaskState = { ...row, ...transition.patch, ...window, ...versioned }
  const event = transition.event && withContext(sql, row, next, transition.event)
  // Work is owed no more where the task is known.
  const isOver = to === 'submitted' || (to === 'canceled' && next.taskId !== null)
  if (row.version === 0) sql.insertTaskState.run(fromTaskState(row))
  const seen = { seen_version: row.version, seen_state: row.state }
  const { changes } = sql.saveIfVersion.run({ ...fromTaskState(next), ...seen })
  invariant(changes === 1, `request ${row.requestId} changed inside a transaction`)
  const queued = row.state === 'queued' ? unqueue(sql, row) : null
  // Of a request that was called meanwhile, the row's is of that call.
  if (transition.patch.priority !== undefined) sql.setPriority.run(next.priority, row.requestId)
  if (transition.unfreeze || isOver) sql.setFrozen.run(null, row.requestId)
  if (next.expiresAt !== row.expiresAt) sql.setExpiresAt.run(next.expiresAt, row.requestId)
  if (to === 'queued') queue(sql, next, transition.dueAt ?? word.now, word.now)
  if (to === 'canceled') sql.freeHashIfOwned.run(ledgerHashOf(row.target, row.logicalHash), row.requestId)
  if (transition.keepPayload) sql.keepPayload.run(word.now, row.requestId)
  if (isOver) deleteRequest(sql, row.requestId, word.now)
  else if (row.state !== to && (to === 'canceled' || (to === 'dead' && !transition.keepsPlace)))
    leaveLineIfOrdered(sql, row.requestId, word.now)
  // Not before whoever has the turn next stands in its place.
  if (queued !== null) leaveRotation(sql, queued)
  // What was put aside as another task is the request's own after all.
  if (next.taskId !== row.taskId) sql.deleteOrphanOf.run(row.requestId, next.taskId)
  // Of a request that was given up its own task is one that it ended without.
  if (transition.orphan !== null)
    noteOrphan(sql, to === 'dead' ? { ...row, taskId: null } : row, transition.orphan, word)
  if (event !== null) noteEvent(sql, row, to, event, word)
  return next
}

/** Work is owed no more. A `live` hash is free from here on; its generation counter stays. */
export function deleteRequest(sql: Statements, requestId: number, now: number): void {
  if (sql.deleteIfPlain.run(requestId).changes > 0) return
  const gone = sql.deleteTelling.get(requestId) as Omit<RequestRow, 'request_id'> | undefined
  if (gone === undefined) return
  const { target, dedupe, ordering_key: orderingKey } = gone
  if (dedupe === 'live') sql.freeHashIfOwned.run(ledgerHashOf(target, logicalHashOf(gone.logical_hash)), requestId)
  if (orderingKey !== null) leaveLine(sql, { requestId, target, orderingKey }, now)
}

/** A row that was never claimed has no `task_state` yet: version 0 stands for it, and its first transition writes it. */
export function currentTaskState(sql: Statements, requestId: number, now: number): TaskState | null {
  const known = readTaskState(sql, requestId)
  if (known !== null) return known
  const request = sql.request.get(requestId) as RequestRow | undefined
  return request === undefined ? null : blankTaskState(request, now)
}

export interface RequestRow {
  request_id: number
  target: string
  logical_hash: StoredHash
  priority: number
  due_at: number
  generation: number
  dedupe: Dedupe
  created_at: number
  payload: string
  expires_at: number | null
  ordering_key: string | null
  group_key: string | null
}

export function toClaimable(request: RequestRow): Claimable {
  return {
    requestId: request.request_id,
    target: request.target,
    payload: request.payload,
    logicalHash: logicalHashOf(request.logical_hash),
    priority: request.priority,
    generation: request.generation,
  }
}

function blankTaskState(request: RequestRow, now: number): TaskState {
  return {
    requestId: request.request_id,
    state: 'queued',
    target: request.target,
    targetVersion: null,
    logicalHash: logicalHashOf(request.logical_hash),
    priority: request.priority,
    taskId: null,
    version: 0,
    attempt: 0,
    nonce: '',
    generation: request.generation,
    idempotencyKey: null,
    attempts: 0,
    replays: 0,
    backoffStep: 0,
    doubtfulAttempts: [],
    executed: false,
    cancelRequested: false,
    abandoned: false,
    leaseOwner: null,
    leaseUntil: null,
    startedAt: null,
    endedAt: null,
    isEndObserved: false,
    unknownSince: null,
    nextCheckAt: null,
    misses: 0,
    lastMissAt: null,
    olderAnswer: null,
    reason: null,
    evidence: null,
    createdAt: request.created_at,
    updatedAt: now,
    expiresAt: request.expires_at,
  }
}

function queue(sql: Statements, { requestId, expiresAt }: TaskState, dueAt: number, now: number): void {
  if (expiresAt !== null) sql.insertExpiry.run(expiresAt, requestId)
  if (sql.setDueAtUnlessOrdered.run(dueAt, requestId).changes === 0) {
    sql.setDueAt.run(dueAt, requestId)
    const ordered = orderedOf(sql, requestId)
    if (ordered !== null && !rejoinLine(sql, ordered, dueAt, now)) return
  }
  enterQueue(sql, requestId, dueAt, now)
}

/** @returns where it stood. */
function unqueue(sql: Statements, { requestId, target, expiresAt }: TaskState): Queued | null {
  const request = sql.request.get(requestId) as RequestRow | undefined
  if (request === undefined) return null
  const { due_at: dueAt, priority, ordering_key: orderingKey, group_key: group } = request
  const queued = { requestId, target, group, priority }
  leaveQueue(sql, queued, dueAt)
  if (orderingKey !== null) sql.standAside.run(target, orderingKey, requestId)
  if (expiresAt !== null) sql.deleteExpiry.run(expiresAt, requestId)
  return queued
}

/** The counter belongs to the hash, not to the request: the next request for it starts above this one. */
function raiseGeneration(sql: Statements, row: TaskState): number {
  const raised = sql.raiseGeneration.get(ledgerHashOf(row.target, row.logicalHash)) as number | undefined
  invariant(raised !== undefined, `request ${row.requestId} has no row in the ledger of hashes`)
  sql.setRequestGeneration.run(raised, row.requestId)
  return raised
}

export function noteOrphan(sql: Statements, row: TaskState, orphan: Orphan, word: Word): void {
  const evidence = orphan.evidence === null ? null : JSON.stringify(orphan.evidence)
  const isNew =
    sql.insertOrphan.run(row.requestId, row.target, orphan.attempt, orphan.taskId, word.now, evidence).changes > 0
  if (!isNew) return
  const reason = row.taskId === null ? 'task_of_an_ended_request' : 'another_task'
  noteEvent(sql, row, row.state, { kind: 'orphan', reason, detail: orphan }, word)
}

/**
 * What nobody could tell from the row any more, for the time line: the call that has ended, and how often it was looked into
 * without anything new, which has no event of its own.
 */
function withContext(sql: Statements, row: TaskState, next: TaskState, event: EventDraft): EventDraft {
  const detail = {
    ...(event.detail as object | undefined),
    ...(row.state === 'invoking' && { call: callFacts(sql, row) }),
    ...(row.state === 'unknown' && { asked: askedSoFar(row) }),
    ...(next.state === 'unknown' && { round: next.backoffStep }),
  }
  return Object.keys(detail).length === 0 ? event : { ...event, detail }
}

function callFacts(sql: Statements, row: TaskState): CallOnRecord {
  const frozen = sql.frozen.get(row.requestId) as string | null | undefined
  const payload = sql.payload.get(row.requestId) as string | undefined
  const fingerprint = frozen && payload !== undefined ? fingerprintOf(thaw(frozen, payload)) : null
  // The claim is the last that has changed a row whose call runs.
  return { claimedAt: row.updatedAt, key: row.idempotencyKey, fingerprint, leaseOwner: row.leaseOwner }
}

export function askedSoFar({
  backoffStep,
  updatedAt,
  reason,
}: Pick<TaskState, 'backoffStep' | 'updatedAt' | 'reason'>): Asked {
  return { round: backoffStep, lastAt: updatedAt, reason }
}
