// Insert-on-conflict, never check-then-insert. Runs inside a transaction.
import { invariant } from '../../core/errors.ts'
import type { RequestState } from '../../core/task-state.ts'
import { type EnqueueResult, isRefused, type NewRequest } from '../store.ts'
import { joinLine } from './ordering.ts'
import { storedHash } from './rows.ts'
import type { EnqueueStatements } from './statements.ts'

/** Leaves the transaction so that it rolls back, and carries what is to be told. */
class RefusalRollback extends Error {
  readonly results: readonly EnqueueResult[]
  constructor(results: readonly EnqueueResult[]) {
    super('a refused request rolls the transaction back')
    this.results = results
  }
}

export function isRefusalRollback(error: unknown): error is RefusalRollback {
  return error instanceof RefusalRollback
}

export function enqueueAll(
  sql: EnqueueStatements,
  requests: readonly NewRequest[],
  now: number,
  stopAtRefusal: boolean,
): EnqueueResult[] {
  const results: EnqueueResult[] = []
  for (const request of requests) {
    const result = enqueueOne(sql, request, now)
    results.push(result)
    if (stopAtRefusal && isRefused(result)) throw new RefusalRollback(results)
  }
  return results
}

function enqueueOne(sql: EnqueueStatements, request: NewRequest, now: number): EnqueueResult {
  const dueAt = request.dueAt ?? now
  const { expiresAt } = request
  // It could never be called. Who enqueues again what is there already is still told where it is.
  if (expiresAt !== null && expiresAt <= Math.max(dueAt, now)) {
    const isThere = (sql.findHash.get(request.ledgerHash) as HeldHash | undefined)?.request_id ?? null
    return isThere === null ? { kind: 'expired', expiresAt, dueAt: Math.max(dueAt, now) } : existing(sql, request)
  }
  const requestId = insertRequest(sql, request, dueAt, now)
  if (sql.insertHash.run(request.ledgerHash, request.payloadHash, requestId).changes === 0) {
    const generation = sql.claimFreeHash.get(request.payloadHash, requestId, request.ledgerHash) as number | undefined
    if (generation === undefined) {
      sql.deleteRequest.run(requestId)
      return existing(sql, request)
    }
    sql.setRequestGeneration.run(generation, requestId)
  }
  const { target, priority, orderingKey, group } = request
  const hasTurn = orderingKey === null || joinLine(sql, { requestId, target, orderingKey }, dueAt, now)
  if (!hasTurn) {
    // It stands in line, and in no queue.
  } else if (dueAt <= now) {
    sql.insertReady.run(target, group ?? '', dueAt, priority, target, priority, dueAt, requestId)
    if (group !== null) sql.enterRotation.run({ target, group })
  } else sql.insertWaiting.run(dueAt, requestId, target, -priority)
  if (expiresAt !== null) sql.insertExpiry.run(expiresAt, requestId)
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
    request.expiresAt,
    request.orderingKey,
    request.group,
  )
  invariant(changes === 1, 'a trigger kept a request from being inserted')
  return Number(lastInsertRowid)
}

interface HeldHash {
  readonly request_id: number | null
  readonly payload_hash: Buffer | null
}

function existing(sql: EnqueueStatements, request: NewRequest): EnqueueResult {
  const held = sql.findHash.get(request.ledgerHash) as HeldHash | undefined
  invariant(held !== undefined && held.request_id !== null, 'a logical hash is taken and not in the ledger')
  const view = sql.overview.get({ id: held.request_id }) as { state: RequestState; task_id: string | null } | undefined
  invariant(view !== undefined, `request ${held.request_id} holds a logical hash and is not there`)
  const same =
    request.payloadHash === null ||
    (held.payload_hash !== null && Buffer.compare(held.payload_hash, request.payloadHash) === 0)
  return same
    ? { kind: 'duplicate', requestId: held.request_id, state: view.state, taskId: view.task_id }
    : { kind: 'conflict', requestId: held.request_id, state: view.state }
}
