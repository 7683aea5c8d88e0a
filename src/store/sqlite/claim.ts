// Claiming: a request leaves the queue and its `invoking` row is written, with the call frozen, in one transaction.
// Order: priority descending, then due time, then request id, over all open lanes.
import { invariant } from '../../core/errors.ts'
import type { Evidence } from '../../core/outcome.ts'
import { fingerprintOf } from '../../core/prepared-call.ts'
import type { ReconciliationDecision } from '../../core/reconciliation.ts'
import type { TaskState } from '../../core/task-state.ts'
import { dead, expired, isExpired, type Transition } from '../../core/transition.ts'
import type { ClaimedCall, Preparation, SettledRow } from '../turn.ts'
import type { Lanes } from './lanes.ts'
import { newNonce } from './nonce.ts'
import { leaveLineIfOrdered } from './ordering.ts'
import type { Head } from './rotation.ts'
import { freeze, fromTaskState, type TaskStateRow, thaw } from './rows.ts'
import { applyTransition, askedSoFar, currentTaskState } from './transitions.ts'
import { descriptionOf, type Turn } from './turn-context.ts'

/** Requests that cannot be rendered fill no slot; this many of them end in one turn. */
const DEATHS_A_TURN = 100

/** As the statement lists them; of a request that was never claimed, everything from `state` on is null. */
type ClaimableCells = [
  logicalHash: string,
  priority: number,
  generation: number,
  createdAt: number,
  payload: string,
  state: TaskState['state'] | null,
  version: number | null,
  attempt: number | null,
  key: string | null,
  targetVersion: string | null,
  frozen: string | null,
  expiresAt: number | null,
]

export interface Claimed {
  readonly calls: readonly ClaimedCall[]
  /** Requests that ended uncalled: their call could not be rendered, or their deadline is over. */
  readonly dead: readonly SettledRow[]
  readonly more: boolean
}

export function claimReady(turn: Turn, lanes: Lanes, slots: number): Claimed {
  const calls: ClaimedCall[] = []
  const dead: SettledRow[] = []
  let head: Head | null = null
  while (calls.length < slots && dead.length < DEATHS_A_TURN) {
    head = lanes.nextHead(slots - calls.length)
    if (head === null) break
    const claimed = claimOne(turn, head)
    if ('outcome' in claimed) dead.push(claimed)
    else {
      lanes.begin(head)
      calls.push(claimed)
    }
  }
  // What ended without a call has left the queue by itself.
  const left = lanes.dequeue()
  invariant(left === calls.length, `${calls.length} requests were claimed and ${left} left the queue`)
  const isPassedOn = passOnTurns(turn, dead)
  lanes.moveOn()
  return { calls, dead, more: slots <= 0 || head !== null || isPassedOn || lanes.lookedThrough() !== null }
}

/** It keeps its place until `passOnTurns`, whatever its target says. */
const FOR_NOW = true

/** Only now: whoever has the turn next must not stand among the heads that were read. @returns whether anybody may have it. */
function passOnTurns({ sql, input, word }: Turn, dead: readonly SettledRow[]): boolean {
  const leaving = dead.filter(({ target }) => input.policyOf(target)?.onDead === 'continue')
  for (const { requestId } of leaving) leaveLineIfOrdered(sql, requestId, word.now)
  return leaving.length > 0
}

function claimOne(turn: Turn, head: Head): ClaimedCall | SettledRow {
  const { sql, input, word, owner, steadyAt } = turn
  const { request_id: requestId, target } = head
  const row = sql.claimable.get(requestId) as ClaimableCells | undefined
  invariant(row !== undefined, `request ${requestId} is in the queue and not there`)
  const [
    logicalHash,
    priority,
    generation,
    createdAt,
    payload,
    state,
    version,
    lastAttempt,
    lastKey,
    lastVersion,
    lastFrozen,
    expiresAt,
  ] = row
  invariant(state === null || state === 'queued', `request ${requestId} is in the queue and ${state}`)
  // Those that the sweep has not come to.
  if (isExpired(expiresAt, word.now))
    return endUncalled(turn, requestId, (known) => expired(known, known.evidence, FOR_NOW))
  const request = { requestId, target, payload, logicalHash, priority, generation }
  // A call that a person sent back under its key keeps its bytes; every other is rendered now.
  const preparation: Preparation =
    lastFrozen === null || lastVersion === null
      ? input.claim.prepare(request)
      : { kind: 'prepared', key: lastKey, call: thaw(lastFrozen, payload), targetVersion: lastVersion }
  if (preparation.kind === 'dead') return endUnprepared(turn, requestId, preparation)
  const { key, call: prepared, targetVersion } = preparation
  const nonce = newNonce()
  const leaseUntil = word.now + input.leaseMs
  const attempt = (lastAttempt ?? 0) + 1
  const frozen = freeze(prepared, payload)
  if (state === null) {
    sql.insertInvoking.run(
      requestId, target, targetVersion, requestId, priority, nonce, generation, key, owner, leaseUntil, steadyAt, frozen, createdAt,
      word.now, expiresAt,
    ) // biome-ignore format: the order is the statement's
  } else {
    const { changes } = sql.claimQueued.run(
      targetVersion, priority, nonce, generation, key, owner, leaseUntil, steadyAt, frozen, word.now, requestId, version,
    ) // biome-ignore format: the order is the statement's
    invariant(changes === 1, `request ${requestId} changed inside a transaction`)
  }
  if (expiresAt !== null) sql.deleteExpiry.run(expiresAt, requestId)
  const writeWithinMs = leftMs(expiresAt, word.now)
  const description = lastFrozen === null ? null : descriptionOf(sql, target, targetVersion)
  return { ...request, targetVersion, attempt, nonce, key, prepared, leaseUntil, writeWithinMs, description }
}

/** The payload does not fit the description: dead at once, surely without a call. */
function endUnprepared(turn: Turn, id: number, { reason, note }: Preparation & { kind: 'dead' }): SettledRow {
  const evidence: Evidence = { phase: 'not_sent', error: note, rule: 'render' }
  return endUncalled(turn, id, ({ attempts }) => dead(evidence, reason, attempts, FOR_NOW))
}

/** What is queued ends as `decide` says: it is not called, and what it was called before surely had no effect. */
export function endUncalled(turn: Turn, id: number, decide: (row: TaskState) => Transition): SettledRow {
  const state = currentTaskState(turn.sql, id, turn.word.now)
  invariant(state?.state === 'queued', `request ${id} is in the queue and ${state?.state ?? 'not there'}`)
  const next = applyTransition(turn.sql, state, decide(state), turn.word)
  const { requestId, target, attempt, reason } = next
  const outcome = reason === 'expired' ? reason : 'rejected'
  return { requestId, target, attempt, state: 'dead', outcome, reason, applied: true }
}

/** A call that begins something leaves before its deadline, or not at all. */
export function leftMs(expiresAt: number | null, now: number): number | null {
  return expiresAt === null ? null : expiresAt - now
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
  const prepared = thaw(stored.frozen, payload)
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
        fingerprint: fingerprintOf(prepared),
        leaseOwner: owner,
      },
      ...(decision.how === 'recall' && { evidence: decision.patch.evidence }),
    }),
  )
  const { requestId, target, logicalHash, priority, generation, attempt, nonce, idempotencyKey: key } = next
  const request = { requestId, target, payload, logicalHash, priority, generation }
  return {
    ...request,
    targetVersion: next.targetVersion ?? '',
    attempt,
    nonce,
    key,
    prepared,
    leaseUntil: next.leaseUntil as number,
    writeWithinMs,
    description: descriptionOf(sql, target, next.targetVersion),
  }
}
