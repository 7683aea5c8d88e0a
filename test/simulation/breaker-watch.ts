// When a target's breaker must be open, told from the ends of its calls alone (README, "When an API is down"): after so many failures
// in a row nobody calls, then one call at a time tries.
import type { CallEnd } from '../../src/core/breaker.ts'
import type { Outcome } from '../../src/core/outcome.ts'
import type { Kind } from './api-model.ts'
import type { ForwardTime } from './forward-time.ts'
import type { Care } from './regimes.ts'

export interface BreakerWatch {
  /** A committed end of a call. */
  onEnd(kind: Kind, end: CallEnd): void
  /** @returns what is wrong. */
  onClaim(kind: Kind, requestId: number, leaseMs: number): readonly string[]
  onResume(kind: Kind): void
  /** Whatever the breakers are from now on, nobody outside knows. */
  forget(): void
}

type Known =
  | { readonly kind: 'closed'; readonly inARow: number }
  | {
      readonly kind: 'open'
      readonly failedProbes: number
      readonly probe: number | null
      /** Nobody calls earlier. */
      readonly until: number
      /** A clock that was set back lets a probe go at once. */
      readonly setBacks: number
    }
  /** Until it surely is closed. */
  | { readonly kind: 'unknown' }

const CLOSED: Known = { kind: 'closed', inARow: 0 }

export function watchBreakers(careOf: (kind: Kind) => Care | undefined, time: ForwardTime): BreakerWatch {
  const all = new Map<Kind, Known>()
  let others: Known = CLOSED

  /** Undefined: what opens it is not told from failures in a row. */
  function policyOf(kind: Kind) {
    const breaker = careOf(kind)?.breaker
    return breaker?.rate === undefined ? breaker : undefined
  }

  function known(kind: Kind): Known {
    return all.get(kind) ?? others
  }

  function afterFailure(kind: Kind, before: Known, requestId: number): Known {
    const policy = policyOf(kind)
    if (policy === undefined || before.kind === 'unknown') return before
    const { failures, probeAfter, maxProbeAfter } = policy
    const open = { kind: 'open', probe: null, setBacks: time.setBacks } as const
    if (before.kind === 'closed') {
      const inARow = before.inARow + 1
      return inARow < failures
        ? { kind: 'closed', inARow }
        : { ...open, failedProbes: 0, until: time.now() + probeAfter }
    }
    if (before.probe !== requestId) return before
    const failedProbes = before.failedProbes + 1
    const waitMs = Math.min(maxProbeAfter, probeAfter * 2 ** failedProbes)
    return { ...before, failedProbes, probe: null, until: time.now() + waitMs }
  }

  return {
    onEnd: (kind, { requestId, outcome }) => {
      const before = known(kind)
      const said = healthOf(outcome)
      if (said === 'well') all.set(kind, CLOSED)
      else if (said === 'ill') all.set(kind, afterFailure(kind, before, requestId))
      else if (before.kind === 'open' && before.probe === requestId)
        all.set(kind, { ...before, probe: null, until: time.now() })
    },
    onClaim: (kind, requestId, leaseMs) => {
      const before = known(kind)
      if (policyOf(kind) === undefined || before.kind !== 'open') return []
      const now = time.now()
      const isEarly = now < before.until && time.setBacks === before.setBacks
      all.set(kind, { ...before, probe: requestId, until: now + leaseMs })
      const why = before.probe === null ? 'its breaker is open' : `the probe for request ${before.probe} is out`
      return isEarly ? [`request ${requestId} is called ${before.until - now} ms too early: ${why}`] : []
    },
    onResume: (kind) => void all.set(kind, CLOSED),
    forget: () => {
      all.clear()
      others = { kind: 'unknown' }
    },
  }
}

function healthOf(outcome: Outcome): 'well' | 'ill' | 'untold' {
  const { kind, evidence } = outcome
  if (kind === 'unknown') return 'ill'
  if (kind === 'rejected' || kind === 'mismatch' || kind === 'blocked') return 'untold'
  if (kind !== 'not_executed') return 'well'
  if (evidence.phase === 'not_sent') return evidence.rule === 'transport' ? 'ill' : 'untold'
  return outcome.refund ? 'untold' : 'ill'
}
