// Insert-on-conflict, never check-then-insert. Runs inside a transaction.
import { invariant } from '../../core/errors.ts'
import type { RequestState } from '../../core/task-state.ts'
import type { EnqueueResult, NewRequest } from '../store.ts'
import { joinLine } from './ordering.ts'
import { enterQueue } from './queue.ts'
import { storedHash } from './rows.ts'
import type { EnqueueStatements } from './statements.ts'

/** Leaves the transaction so that it rolls back, and carries what is to be told. */
class ConflictRollback extends Error {
  readonly results: readonly EnqueueResult[]
  constructor(results: readonly EnqueueResult[]) {
    super('a logical hash conflict rolls the transaction back')
    this.results = results
  }
}

export function isConflictRollback(error: unknown): error is ConflictRollback {
  return error instanceof ConflictRollback
}

export function enqueueAll(
  sql: EnqueueStatements,
  requests: readonly NewRequest[],
  now: number,
  stopAtConflict: boolean,
): EnqueueResult[] {
  const results: EnqueueResult[] = []
  for (const request of requests) {
    const result = enqueueOne(sql, request, now)
    results.push(result)
    if (stopAtConflict && result.kind === 'conflict') throw new ConflictRollback(results)
  }
  return results
}

function enqueueOne(sql: EnqueueStatements, request: NewRequest, now: number): EnqueueResult {
  const dueAt = request.dueAt ?? now
  const requestId = insertRequest(sql, request, dueAt, now)
  if (sql.insertHash.run(request.ledgerHash, request.payloadHash, requestId).changes === 0) {
    const generation = sql.claimFreeHash.get(request.payloadHash, requestId, request.ledgerHash) as number | undefined
    if (generation === undefined) {
      sql.deleteRequest.run(requestId)
      return existing(sql, request)
    }
    sql.setRequestGeneration.run(generation, requestId)
  }
  const { target, priority, orderingKey } = request
  const hasTurn = orderingKey === null || joinLine(sql, { requestId, target, orderingKey }, dueAt, now)
  if (hasTurn) enterQueue(sql, { requestId, target, priority }, dueAt, now)
  return { kind: 'inserted', requestId, state: dueAt <= now ? 'ready' : 'scheduled' }
}

function insertRequest(sql: EnqueueStatements, request: NewRequest, dueAt: number, now: number): number {
  const { lastInsertRowid, changes } = sql.insertRequest.run(
    request.target,
    // A hash that covers the payload is derived, and the ledger's bytes are what is stored of it.
    request.payloadHash === null ? request.ledgerHash : storedHash(request.logicalHash),
    request.priority,
    dueAt,
    1,
    request.dedupe,
    now,
    request.payload,
    request.orderingKey,
  )
  invariant(changes === 1, 'a trigger kept a request from being inserted')
  return Number(lastInsertRowid)
}

function existing(sql: EnqueueStatements, request: NewRequest): EnqueueResult {
  const held = sql.findHash.get(request.ledgerHash) as { request_id: number; payload_hash: Buffer | null } | undefined
  invariant(held !== undefined, 'a logical hash is taken and not in the ledger')
  const view = sql.overview.get({ id: held.request_id }) as { state: RequestState; task_id: string | null } | undefined
  invariant(view !== undefined, `request ${held.request_id} holds a logical hash and is not there`)
  const same =
    request.payloadHash === null ||
    (held.payload_hash !== null && Buffer.compare(held.payload_hash, request.payloadHash) === 0)
  return same
    ? { kind: 'duplicate', requestId: held.request_id, state: view.state, taskId: view.task_id }
    : { kind: 'conflict', requestId: held.request_id, state: view.state }
}
