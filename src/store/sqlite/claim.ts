// Claiming: a request leaves the queue and its `invoking` row is written, with the call frozen, in one transaction.
// Each open target's lane is probed at its head and the heads are merged, so that a paused target with a million urgent
// rows costs nothing. Order: priority descending, then due time, then request id.
import { randomBytes } from 'node:crypto'
import { invariant } from '../../core/errors.ts'
import type { Evidence } from '../../core/outcome.ts'
import type { RateLimit } from '../../core/policy.ts'
import type { ReconciliationDecision } from '../../core/reconciliation.ts'
import { dead } from '../../core/settlement.ts'
import type { TaskState } from '../../core/task-state.ts'
import { type Bucket, nextTokenAt, refill } from '../../core/token-bucket.ts'
import type { ClaimedCall, Preparation } from '../store.ts'
import { freeze, fromTaskState, logicalHashOf, type TaskStateRow, thaw } from './rows.ts'
import type { Statements } from './statements.ts'
import { applyTransition, ensureTaskState, type RequestRow } from './transitions.ts'
import type { Turn } from './turn.ts'

interface Head {
  readonly target: string
  readonly rank: number
  readonly due_at: number
  readonly request_id: number
}

interface Lane {
  readonly target: string
  readonly rate: RateLimit | null
  /** How many more this turn may take from it. */
  open: number
  taken: number
  readonly bucket: Bucket | null
  heads: Head[]
  last: Head | null
  drained: boolean
}

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
  readonly more: boolean
  /** When a lane that the rate limit closed opens again. */
  readonly nextTokenAt: number | null
}

export function claimReady(turn: Turn, slots: number): Claimed {
  if (slots <= 0) return { calls: [], more: false, nextTokenAt: null }
  const lanes = openLanes(turn)
  const calls: ClaimedCall[] = []
  while (calls.length < slots) {
    const lane = bestLane(turn.sql, lanes, slots - calls.length)
    if (lane === null) break
    const head = lane.heads.shift() as Head
    const call = claimOne(turn, head)
    if (call === null) continue
    lane.open -= 1
    lane.taken += 1
    calls.push(call)
  }
  return { calls, more: calls.length >= slots, nextTokenAt: chargeBuckets(turn, lanes) }
}

function openLanes(turn: Turn): Lane[] {
  const lanes: Lane[] = []
  for (const { name, policy } of turn.input.claim.targets) {
    if (turn.paused.has(name)) continue
    const { rate, concurrency } = policy.limits
    const bucket = rate === null ? null : refill(readBucket(turn.sql, name), rate, turn.word.now)
    const free =
      concurrency === null ? Number.POSITIVE_INFINITY : concurrency - (turn.sql.invokingOf.get(name) as number)
    const open = Math.min(free, bucket === null ? Number.POSITIVE_INFINITY : Math.floor(bucket.tokens))
    lanes.push({ target: name, rate, open, taken: 0, bucket, heads: [], last: null, drained: false })
  }
  return lanes
}

function readBucket(sql: Statements, target: string): Bucket | null {
  return (sql.bucket.get(target) as Bucket | undefined) ?? null
}

/** @returns when the first lane that its rate has closed opens again. */
function chargeBuckets(turn: Turn, lanes: readonly Lane[]): number | null {
  let next: number | null = null
  for (const { target, bucket, rate, taken, drained, heads } of lanes) {
    if (bucket === null || rate === null) continue
    const charged = { tokens: bucket.tokens - taken, at: bucket.at }
    if (taken > 0) turn.sql.saveBucket.run(target, charged.tokens, charged.at)
    if (charged.tokens >= 1 || (drained && heads.length === 0)) continue
    next = Math.min(next ?? Number.POSITIVE_INFINITY, nextTokenAt(charged, rate))
  }
  return next
}

/** The lane whose head comes first. One lane is read ahead as far as it can be needed; many are probed one head at a time. */
function bestLane(sql: Statements, lanes: readonly Lane[], wanted: number): Lane | null {
  const chunk = lanes.length === 1 ? wanted : Math.max(1, Math.ceil(wanted / lanes.length))
  let best: Lane | null = null
  for (const lane of lanes) {
    if (lane.open <= 0) continue
    if (lane.heads.length === 0 && !lane.drained) readAhead(sql, lane, chunk)
    const head = lane.heads[0]
    if (head !== undefined && (best === null || isBefore(head, best.heads[0] as Head))) best = lane
  }
  return best
}

function readAhead(sql: Statements, lane: Lane, chunk: number): void {
  const from = lane.last
  const after = from === null ? [Number.MIN_SAFE_INTEGER, 0, 0] : [from.rank, from.due_at, from.request_id]
  lane.heads = sql.laneHead.all(lane.target, ...after, chunk) as Head[]
  lane.drained = lane.heads.length < chunk
  lane.last = lane.heads.at(-1) ?? lane.last
}

function isBefore(a: Head, b: Head): boolean {
  if (a.rank !== b.rank) return a.rank < b.rank
  return a.due_at !== b.due_at ? a.due_at < b.due_at : a.request_id < b.request_id
}

function claimOne(turn: Turn, head: Head): ClaimedCall | null {
  const { sql, input, word, owner } = turn
  const row = sql.claimable.get(head.request_id) as ClaimableRow | undefined
  invariant(row !== undefined, `request ${head.request_id} is in the queue and not there`)
  invariant(row.state === null || row.state === 'queued', `request ${head.request_id} is in the queue and ${row.state}`)
  sql.deleteReady.run(head.target, head.rank, head.due_at, head.request_id)
  const preparation = prepare(turn, row)
  if (preparation.kind === 'dead') {
    endUnprepared(turn, row, preparation)
    return null
  }
  const nonce = newNonce()
  const leaseUntil = word.now + input.leaseMs
  const attempt = (row.attempt ?? 0) + 1
  const frozen = freeze(preparation.call, row.payload)
  if (row.state === null) {
    sql.insertInvoking.run(
      row.request_id, row.target, preparation.targetVersion, row.logical_hash, row.priority, nonce, row.generation,
      preparation.key, owner, leaseUntil, word.now, frozen, row.created_at, word.now,
    ) // biome-ignore format: the order is the statement's
  } else {
    const { changes } = sql.claimQueued.run(
      preparation.targetVersion, row.priority, nonce, row.generation, preparation.key, owner, leaseUntil, word.now,
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
    kind: 'first',
  }
}

/** A call that a person sent back under its key keeps its bytes; every other is rendered now. */
function prepare(turn: Turn, row: ClaimableRow): Preparation {
  if (row.frozen !== null && row.target_version !== null) {
    const call = thaw(row.frozen, row.payload)
    return { kind: 'prepared', key: row.idempotency_key, call, targetVersion: row.target_version }
  }
  return turn.input.claim.prepare({
    requestId: row.request_id,
    target: row.target,
    payload: row.payload,
    logicalHash: logicalHashOf(row.logical_hash),
    priority: row.priority,
    generation: row.generation,
  })
}

/** The payload does not fit the description: dead at once, surely without a call. */
function endUnprepared(turn: Turn, row: RequestRow, preparation: Preparation & { kind: 'dead' }): void {
  const evidence: Evidence = { phase: 'not_sent', error: preparation.note, rule: 'render' }
  const state = ensureTaskState(turn.sql, row.request_id, turn.word.now)
  invariant(state !== null, `request ${row.request_id} is not there`)
  applyTransition(turn.sql, state, dead(evidence, preparation.reason, state.attempts), turn.word)
}

/** From `unknown` straight to `invoking`: the frozen bytes again, under the same key. */
export function claimUnknown(
  turn: Turn,
  row: TaskState,
  decision: ReconciliationDecision & { kind: 'call' },
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
    nonce: newNonce(),
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
  const reason = decision.how === 'replay' ? row.reason : 'settled_miss'
  sql.insertEvent.run(
    row.requestId,
    row.target,
    word.now,
    decision.how,
    'unknown',
    'invoking',
    next.attempt,
    word.actor,
    reason,
    null,
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
    kind: decision.how,
  }
}

function newNonce(): string {
  return randomBytes(8).toString('hex')
}
