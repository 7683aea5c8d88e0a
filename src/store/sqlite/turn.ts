// The turn: everything that one worker has to write now, in one transaction, whatever its concurrency.
// Order matters: answers first (they free what others wait for, or close a target), then leases, then what is due, then
// what recovery decided, then new work.
import { CLOCK_NOISE_MS } from '../../core/clock.ts'
import { invariant } from '../../core/errors.ts'
import { EXPIRE_A_TURN, PROMOTE_A_TURN } from '../bounds.ts'
import type { TurnInput, TurnResult } from '../turn.ts'
import type { StoreFacts } from '../views.ts'
import { noteCallEnds, readBreakers } from './breakers.ts'
import { leaseChecks, reconcile, track } from './checks.ts'
import { claimReady } from './claim.ts'
import { endOverdue } from './deadlines.ts'
import { earliest, nextDueAt } from './due.ts'
import { openLanes } from './lanes.ts'
import type { QueueFacts } from './queries.ts'
import { agingOf, moveRanks, NO_RANKINGS, readRankings } from './rankings.ts'
import { type Guard, settle } from './settle.ts'
import type { Statements } from './statements.ts'
import { ownerOf, type Turn } from './turn-context.ts'

type TimeFacts = Pick<StoreFacts, 'highWaterAt' | 'clockAheadMs'>
export type TurnFacts = TimeFacts & QueueFacts

export function runTurn(sql: Statements, input: TurnInput, guard: Guard | null, facts: TurnFacts): TurnResult {
  const now = input.now()
  input.steady.hear(facts)
  const turn: Turn = {
    sql,
    input,
    word: { now, actor: `worker:${input.worker.name}` },
    owner: ownerOf(input.worker),
    highWaterAt: facts.highWaterAt,
    steadyAt: Math.max(now, input.steady.now()),
    rankings: facts.isRanked ? readRankings(sql) : NO_RANKINGS,
    breakers: readBreakers(sql),
    stops: [],
  }
  const settled = input.results.map((result) => settle(turn, result, guard))
  noteCallEnds(turn, input.results, settled)
  const lost = input.renewals.filter((call) => !renew(turn, call))
  const leasesOver = expireLeases(turn)
  const promoted = promote(turn)
  const overdue = endOverdue(turn, facts)
  const isMoving = moveRanks(sql, turn.rankings)
  const tracked = input.trackings.map((tracking) => track(turn, tracking))
  const lanes = openLanes(turn)
  const decided = input.reconciliations.map((reconciliation) => reconcile(turn, lanes, reconciliation))
  const recalls = decided.flatMap(({ call }) => (call === null ? [] : [call]))
  const claimed = claimReady(turn, lanes, input.claim.slots - recalls.length)
  const nextOpeningAt = lanes.charge()
  const calls = [...recalls, ...claimed.calls]
  const { investigations, toTrack, nextCheckAt } = leaseChecks(turn)
  const isIdle =
    calls.length + settled.length + decided.length + investigations.length + leasesOver + overdue.ended.length === 0
  if (!isIdle) sql.raiseHighWater.run({ by: calls.length > 0 ? 1 : 0, now: turn.steadyAt })
  keepClock(turn, facts)
  return {
    settled: [...settled, ...overdue.ended, ...claimed.dead],
    stops: turn.stops,
    tracked,
    reconciled: decided.map(({ row }) => row),
    lost,
    calls,
    investigations,
    toTrack,
    nextDueAt: earliest(nextDueAt(sql), nextCheckAt, nextOpeningAt),
    more: leasesOver === EXPIRE_A_TURN || promoted === PROMOTE_A_TURN || overdue.isMore || isMoving,
    moreReady: claimed.more,
    lookedThrough: lanes.lookedThrough(),
    agingMs: agingOf(turn.rankings),
  }
}

/** A clock that was set while this process watched: whoever comes after it has not seen that. */
function keepClock({ sql, input, word, steadyAt }: Turn, facts: TimeFacts): void {
  const clockAheadMs = steadyAt - word.now
  if (Math.abs(clockAheadMs - facts.clockAheadMs) <= CLOCK_NOISE_MS) return
  sql.setClockAhead.run(clockAheadMs)
  input.steady.hear({ ...facts, clockAheadMs })
}

function renew(turn: Turn, call: { requestId: number; attempt: number; nonce: string }): boolean {
  const until = turn.word.now + turn.input.leaseMs
  const held = [call.requestId, call.attempt, call.nonce, turn.owner, turn.word.now]
  return turn.sql.renewIfHeld.run(until, ...held).changes > 0
}

function expireLeases({ sql, word }: Turn): number {
  const which = { now: word.now, limit: EXPIRE_A_TURN }
  const over = sql.expiredLeases.all(which) as number[]
  if (over.length === 0) return 0
  const { changes: told } = sql.noteExpired.run({ ...which, actor: word.actor })
  let moved = 0
  for (const id of over) moved += sql.expireIfInvoking.run({ id, now: word.now }).changes
  invariant(told === moved, `${told} leases are over, and ${moved} rows moved`)
  return moved
}

interface Due {
  readonly due_at: number
  readonly request_id: number
  readonly target: string
  readonly group_key: string | null
}

function promote(turn: Turn): number {
  const { sql, word } = turn
  const due = sql.dueWaiting.all(word.now, PROMOTE_A_TURN) as Due[]
  for (const { due_at: dueAt, request_id: id, target, group_key: group } of due) {
    sql.promote.run(group ?? '', dueAt, id)
    sql.deleteWaiting.run(dueAt, id)
    if (group !== null) sql.enterRotation.run({ target, group })
  }
  return due.length
}
