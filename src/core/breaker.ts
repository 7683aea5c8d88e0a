// A circuit breaker as arithmetic on one stored row a target: what its calls come to opens it, and a single probe at a time tries
// whether it may close. Pure; the store reads and writes the row in the transaction of the turn, so that all workers share it.
import { wasSetBack } from './clock.ts'
import type { Outcome } from './outcome.ts'

export interface BreakerPolicy {
  /** So many failures in a row open it. */
  readonly failures: number
  /** Also so large a share of at least so many calls within so long; null: only failures in a row do. */
  readonly rate: { readonly share: number; readonly calls: number; readonly withinMs: number } | null
  /** How long it stays open before the first probe; twice as long after each that fails, up to `maxProbeMs`. */
  readonly probeMs: number
  readonly maxProbeMs: number
}

export const DEFAULT_BREAKER: BreakerPolicy = { failures: 20, rate: null, probeMs: 30_000, maxProbeMs: 600_000 }

/** Null, where there is nothing to tell: closed, and the last call did not fail. Instants are epoch ms. */
export type Breaker = ClosedBreaker | OpenBreaker

export interface ClosedBreaker {
  readonly kind: 'closed'
  readonly inARow: number
  /** Calls counted since then, for the share. */
  readonly from: number
  readonly calls: number
  readonly failures: number
}

export interface OpenBreaker {
  readonly kind: 'open'
  /** UTC epoch ms. */
  readonly since: number
  /** The failure that opened it. */
  readonly reason: string
  /** One after the other. */
  readonly failedProbes: number
  /** The next probe is the first call that is due from then on; UTC epoch ms. While one is out: when that is given up. */
  readonly probeAt: number
  /** The request whose call is the probe that is out; null: none is. */
  readonly probe: number | null
}

/** One call that came to its end. */
export interface CallEnd {
  readonly requestId: number
  readonly outcome: Outcome
}

type Bearing = 'success' | 'failure' | 'neither'

/** What one outcome says of the target's health; what a request alone is to blame for says nothing, nor does being limited. */
export function bearingOf(outcome: Outcome): Bearing {
  switch (outcome.kind) {
    case 'accepted':
    case 'exists':
    case 'accepted_without_id':
    case 'in_flight':
      return 'success'
    case 'unknown':
      return 'failure'
    case 'not_executed':
      // Kept back by ourselves; told to wait; or the network, or the API, could not.
      if (outcome.evidence.phase === 'not_sent') return outcome.evidence.rule === 'transport' ? 'failure' : 'neither'
      return outcome.refund ? 'neither' : 'failure'
    default:
      return 'neither'
  }
}

/** @returns the breaker after these ends, in their order; the same object where none of them changes it. */
export function noteEnds(
  breaker: Breaker | null,
  ends: readonly CallEnd[],
  policy: BreakerPolicy,
  now: number,
): Breaker | null {
  return ends.reduce((known, end) => noteEnd(known, end, policy, now), breaker)
}

function noteEnd(breaker: Breaker | null, end: CallEnd, policy: BreakerPolicy, now: number): Breaker | null {
  const bearing = bearingOf(end.outcome)
  if (breaker?.kind === 'open') return afterOpening(breaker, end, bearing, policy, now)
  const isUncounted = bearing === 'success' && breaker === null && policy.rate === null
  if (bearing === 'neither' || isUncounted) return breaker
  const counted = count(breaker, bearing, policy, now)
  const isFailing = counted.inARow >= policy.failures || isTooMany(counted, policy)
  if (bearing === 'failure' && isFailing) return open(end.outcome, policy, now)
  // Nothing is kept of a target that answers, but where its share of failures counts.
  return counted.inARow === 0 && policy.rate === null ? null : counted
}

function count(
  breaker: ClosedBreaker | null,
  bearing: 'success' | 'failure',
  { rate }: BreakerPolicy,
  now: number,
): ClosedBreaker {
  const isFresh =
    breaker !== null && rate !== null && !wasSetBack(breaker.from, now) && now - breaker.from < rate.withinMs
  const window = isFresh ? breaker : { from: now, calls: 0, failures: 0 }
  const failed = bearing === 'failure' ? 1 : 0
  return {
    kind: 'closed',
    inARow: failed === 0 ? 0 : (breaker?.inARow ?? 0) + 1,
    from: window.from,
    calls: window.calls + 1,
    failures: window.failures + failed,
  }
}

function isTooMany({ calls, failures }: ClosedBreaker, { rate }: BreakerPolicy): boolean {
  return rate !== null && calls >= rate.calls && failures >= rate.share * calls
}

function open({ kind, evidence }: Outcome, { probeMs }: BreakerPolicy, now: number): OpenBreaker {
  const what = evidence.status === undefined ? evidence.error : `status ${evidence.status}`
  const reason = what === undefined ? kind : `${kind}: ${what}`
  return { kind: 'open', since: now, reason, failedProbes: 0, probeAt: now + probeMs, probe: null }
}

/** A success closes it, whoever's it is; failures of calls that were out when it opened are no news. */
function afterOpening(
  breaker: OpenBreaker,
  { requestId }: CallEnd,
  bearing: Bearing,
  policy: BreakerPolicy,
  now: number,
): Breaker | null {
  if (bearing === 'success') return null
  if (breaker.probe !== requestId) return breaker
  // What says nothing of the target's health was no probe.
  if (bearing === 'neither') return { ...breaker, probe: null, probeAt: now }
  const failedProbes = breaker.failedProbes + 1
  const waitMs = Math.min(policy.maxProbeMs, policy.probeMs * 2 ** failedProbes)
  return { ...breaker, failedProbes, probe: null, probeAt: now + waitMs }
}

/** @returns how many calls may begin: any number, one that probes, or none. */
export function callsAllowed(breaker: Breaker | null, now: number): 'any' | 'probe' | 'none' {
  if (breaker === null || breaker.kind === 'closed') return 'any'
  // A clock that was set back must not keep it open for as long as it lost.
  return now >= breaker.probeAt || wasSetBack(breaker.since, now) ? 'probe' : 'none'
}

/** @param leaseMs how long the probe may take. */
export function beginProbe(breaker: OpenBreaker, requestId: number, now: number, leaseMs: number): OpenBreaker {
  return { ...breaker, since: Math.min(breaker.since, now), probe: requestId, probeAt: now + leaseMs }
}
