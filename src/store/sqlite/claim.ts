// Claiming: a request leaves the queue and its `invoking` row is written, with the call frozen, in one transaction.
// Order: priority descending, then due time, then request id, over all open lanes.
import { randomBytes } from 'node:crypto'
import { invariant } from '../../core/errors.ts'
import type { Evidence } from '../../core/outcome.ts'
import type { ReconciliationDecision } from '../../core/reconciliation.ts'
import { dead } from '../../core/settlement.ts'
import type { TaskState } from '../../core/task-state.ts'
import type { ClaimedCall, Preparation, SettledRow } from '../turn.ts'
import type { Head, Lanes } from './lanes.ts'
import { freeze, fromTaskState, logicalHashOf, type TaskStateRow, thaw } from './rows.ts'
import { applyTransition, askedSoFar, currentTaskState, type RequestRow, toClaimable } from './transitions.ts'
import { descriptionOf, type Turn } from './turn-context.ts'

/** Requests that cannot be rendered fill no slot; this many of them end in one turn. */
const DEATHS_A_TURN = 100

interface ClaimableRow extends RequestRow {
  state: TaskState['state'] | null
  version: number | null
  attempt: number | null
  idempotency_key: string | null
  target_version: string | null
  frozen: string | null
}

export interface Claimed {
  readonly calls: readonly ClaimedCall[]
  /** Requests that ended because their call could not be rendered. */
  readonly dead: readonly SettledRow[]
  readonly more: boolean
}

export function claimReady(turn: Turn, lanes: Lanes, slots: number): Claimed {
  const calls: ClaimedCall[] = []
  const dead: SettledRow[] = []
  while (calls.length < slots && dead.length < DEATHS_A_TURN) {
    const head = lanes.nextHead(slots - calls.length)
    if (head === null) return { calls, dead, more: false }
    const claimed = claimOne(turn, head)
    if ('outcome' in claimed) dead.push(claimed)
    else {
      lanes.take(head.target)
      calls.push(claimed)
    }
  }
  return { calls, dead, more: slots > 0 }
}

function claimOne(turn: Turn, head: Head): ClaimedCall | SettledRow {
  const { sql, input, word, owner, steadyAt } = turn
  const row = sql.claimable.get(head.request_id) as ClaimableRow | undefined
  invariant(row !== undefined, `request ${head.request_id} is in the queue and not there`)
  invariant(row.state === null || row.state === 'queued', `request ${head.request_id} is in the queue and ${row.state}`)
  sql.deleteReady.run(head.target, head.rank, head.due_at, head.request_id)
  const preparation = prepare(turn, row)
  if (preparation.kind === 'dead') return endUnprepared(turn, row, preparation)
  const nonce = newNonce()
  const leaseUntil = word.now + input.leaseMs
  const attempt = (row.attempt ?? 0) + 1
  const frozen = freeze(preparation.call, row.payload)
  if (row.state === null) {
    sql.insertInvoking.run(
      row.request_id, row.target, preparation.targetVersion, row.logical_hash, row.priority, nonce, row.generation,
      preparation.key, owner, leaseUntil, steadyAt, frozen, row.created_at, word.now,
    ) // biome-ignore format: the order is the statement's
  } else {
    const { changes } = sql.claimQueued.run(
      preparation.targetVersion, row.priority, nonce, row.generation, preparation.key, owner, leaseUntil, steadyAt,
      frozen, word.now, row.request_id, row.version,
    ) // biome-ignore format: the order is the statement's
    invariant(changes === 1, `request ${row.request_id} changed inside a transaction`)
  }
  return {
    requestId: row.request_id,
    target: row.target,
    targetVersion: preparation.targetVersion,
    attempt,
    nonce,
    key: preparation.key,
    generation: row.generation,
    logicalHash: logicalHashOf(row.logical_hash),
    priority: row.priority,
    payload: row.payload,
    prepared: preparation.call,
    leaseUntil,
    writeWithinMs: null,
    description: row.frozen === null ? null : descriptionOf(sql, row.target, preparation.targetVersion),
  }
}

/** A call that a person sent back under its key keeps its bytes; every other is rendered now. */
function prepare(turn: Turn, row: ClaimableRow): Preparation {
  if (row.frozen !== null && row.target_version !== null) {
    const call = thaw(row.frozen, row.payload)
    return { kind: 'prepared', key: row.idempotency_key, call, targetVersion: row.target_version }
  }
  return turn.input.claim.prepare(toClaimable(row))
}

/** The payload does not fit the description: dead at once, surely without a call. */
function endUnprepared(turn: Turn, row: RequestRow, { reason, note }: Preparation & { kind: 'dead' }): SettledRow {
  const evidence: Evidence = { phase: 'not_sent', error: note, rule: 'render' }
  const state = currentTaskState(turn.sql, row.request_id, turn.word.now)
  invariant(state !== null, `request ${row.request_id} is not there`)
  const next = applyTransition(turn.sql, state, dead(evidence, reason, state.attempts), turn.word)
  invariant(next !== null, `request ${row.request_id} changed inside a transaction`)
  const { requestId, target, attempt } = next
  return { requestId, target, attempt, state: 'dead', outcome: 'rejected', reason, applied: true }
}

/** From `unknown` straight to `invoking`: the frozen bytes again, under the same key. */
export function claimUnknown(
  turn: Turn,
  row: TaskState,
  decision: ReconciliationDecision & { kind: 'call' },
  writeWithinMs: number | null,
): ClaimedCall {
  const { sql, input, word, owner } = turn
  const stored = sql.taskState.get(row.requestId) as TaskStateRow
  const payload = sql.payload.get(row.requestId) as string | undefined
  invariant(
    stored.frozen !== null && payload !== undefined,
    `request ${row.requestId} is in doubt without its frozen call`,
  )
  const next: TaskState = {
    ...row,
    ...decision.patch,
    state: 'invoking',
    version: row.version + 1,
    attempt: row.attempt + 1,
    doubtfulAttempts: [...(decision.patch.doubtfulAttempts ?? row.doubtfulAttempts), row.attempt + 1],
    nonce: newNonce(),
    isEndObserved: false,
    reason: decision.reason,
    leaseOwner: owner,
    leaseUntil: word.now + input.leaseMs,
    nextCheckAt: null,
    misses: 0,
    lastMissAt: null,
    updatedAt: word.now,
  }
  const seen = { seen_version: row.version, seen_state: 'unknown' }
  invariant(
    sql.saveIfVersion.run({ ...fromTaskState(next), ...seen }).changes === 1,
    `request ${row.requestId} changed inside a transaction`,
  )
  sql.insertEvent.run(
    row.requestId,
    row.target,
    word.now,
    decision.how,
    'unknown',
    'invoking',
    next.attempt,
    word.actor,
    decision.reason,
    JSON.stringify({
      asked: askedSoFar(row),
      call: {
        claimedAt: word.now,
        key: row.idempotencyKey,
        fingerprint: thaw(stored.frozen, payload).fingerprint,
        leaseOwner: owner,
      },
      ...(decision.how === 'recall' && { evidence: decision.patch.evidence }),
    }),
  )
  return {
    requestId: row.requestId,
    target: row.target,
    targetVersion: row.targetVersion ?? '',
    attempt: next.attempt,
    nonce: next.nonce,
    key: row.idempotencyKey,
    generation: row.generation,
    logicalHash: row.logicalHash,
    priority: row.priority,
    payload,
    prepared: thaw(stored.frozen, payload),
    leaseUntil: next.leaseUntil as number,
    writeWithinMs,
    description: descriptionOf(sql, row.target, row.targetVersion),
  }
}

export function newNonce(): string {
  return randomBytes(8).toString('hex')
}
