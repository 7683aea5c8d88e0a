// The breakers of all targets, as one turn reads and writes them. A target whose calls succeed has no row.
import { type Breaker, type BreakerPolicy, noteEnds } from '../../core/breaker.ts'
import { NO_POLICY } from '../../core/policy.ts'
import type { AttemptResult } from '../../core/settlement.ts'
import type { SettledRow } from '../turn.ts'
import { noteTargetEvent } from './events.ts'
import type { Statements } from './statements.ts'
import type { Turn } from './turn-context.ts'

export interface BreakerRow {
  target: string
  failures_in_a_row: number
  counted_from: number
  counted_calls: number
  counted_failures: number
  opened_at: number | null
  reason: string | null
  failed_probes: number
  probe_at: number | null
  probe_request_id: number | null
}

export function readBreakers(sql: Statements): Map<string, Breaker> {
  return new Map((sql.breakers.all() as BreakerRow[]).map((row) => [row.target, toBreaker(row)]))
}

/** What this turn's answers say of their targets. Those that changed nothing were counted before, or are nobody's. */
export function noteCallEnds(turn: Turn, results: readonly AttemptResult[], settled: readonly SettledRow[]): void {
  const isPlain = ({ outcome, target }: AttemptResult) =>
    outcome.kind === 'accepted' && policyOf(turn, target)?.rate === null
  if (turn.breakers.size === 0 && results.every(isPlain)) return
  // Where a later attempt still runs, this is the end of an earlier one.
  const counted = results.filter((_, i) => settled[i]?.applied === true && settled[i]?.state !== 'invoking')
  for (const target of new Set(counted.map((result) => result.target))) {
    const ends = counted.filter((result) => result.target === target)
    noteEndsOf(turn, target, ends)
  }
}

function policyOf({ input }: Turn, target: string): BreakerPolicy | null {
  return (input.policyOf(target) ?? NO_POLICY).breaker
}

function noteEndsOf(turn: Turn, target: string, ends: readonly AttemptResult[]): void {
  const policy = policyOf(turn, target)
  const before = turn.breakers.get(target) ?? null
  // Whoever wants none closes one that is open.
  const after = policy === null ? null : noteEnds(before, ends, policy, turn.word.now)
  if (after !== before) saveBreaker(turn, target, before, after)
}

export function saveBreaker(turn: Turn, target: string, before: Breaker | null, after: Breaker | null): void {
  const { sql, word, input, breakers, stops } = turn
  if (after === null) {
    breakers.delete(target)
    sql.deleteBreaker.run(target)
  } else {
    breakers.set(target, after)
    sql.saveBreaker.run(fromBreaker(target, after))
  }
  const wasOpen = before?.kind === 'open'
  if (after?.kind === 'open') {
    const { since, probeAt, reason } = after
    const { rampMs: ramp_ms } = (input.policyOf(target) ?? NO_POLICY).rateLimit
    sql.saveBreakerPause.run({ target, since, until: probeAt, reason, ramp_ms })
    if (!wasOpen) noteTargetEvent(sql, target, { kind: 'breaker_opened', reason }, word)
    if (!wasOpen) stops.push({ target, kind: 'breaker_opened', why: reason, until: probeAt })
    else if (after.failedProbes > before.failedProbes)
      stops.push({ target, kind: 'probe_failed', why: reason, until: probeAt })
  } else if (wasOpen) {
    // Calls begin again as after any other pause: few at first.
    sql.endBreakerPause.run({ target, now: word.now })
    noteTargetEvent(sql, target, { kind: 'breaker_closed', reason: null }, word)
    stops.push({ target, kind: 'breaker_closed', why: before.reason, until: null })
  }
}

export function toBreaker(row: BreakerRow): Breaker {
  const { opened_at: since, probe_at: probeAt } = row
  if (since === null || probeAt === null) {
    const counted = { from: row.counted_from, calls: row.counted_calls, failures: row.counted_failures }
    return { kind: 'closed', inARow: row.failures_in_a_row, ...counted }
  }
  const { reason, failed_probes: failedProbes, probe_request_id: probe } = row
  return { kind: 'open', since, reason: reason ?? '', failedProbes, probeAt, probe }
}

function fromBreaker(target: string, breaker: Breaker): BreakerRow {
  const isOpen = breaker.kind === 'open'
  return {
    target,
    failures_in_a_row: isOpen ? 0 : breaker.inARow,
    counted_from: isOpen ? 0 : breaker.from,
    counted_calls: isOpen ? 0 : breaker.calls,
    counted_failures: isOpen ? 0 : breaker.failures,
    opened_at: isOpen ? breaker.since : null,
    reason: isOpen ? breaker.reason : null,
    failed_probes: isOpen ? breaker.failedProbes : 0,
    probe_at: isOpen ? breaker.probeAt : null,
    probe_request_id: isOpen ? breaker.probe : null,
  }
}
