// What may hold calls back in one turn: the rate and the concurrency of a target, the same of a bucket that several targets
// share, and a pause that ends by itself, with the ramp after it. Each says how many calls it lets begin, and is charged by those that
// do, in the transaction that claims them: so it holds for all processes together.
import { beginProbe, callsAllowed } from '../../core/breaker.ts'
import { wasSetBack } from '../../core/clock.ts'
import type { Limits, RateLimit, WaitScope } from '../../core/policy.ts'
import { rampAllowance, rampOpensAfterMs } from '../../core/ramp.ts'
import { nextTokenAt, refill, type Tokens } from '../../core/token-bucket.ts'
import type { ClaimTarget } from '../turn.ts'
import { saveBreaker } from './breakers.ts'
import { settlePauses, type TimedPauseRow } from './pauses.ts'
import type { Turn } from './turn-context.ts'

/** Whom time alone sets free. */
export interface Wait {
  readonly why: 'told_to_wait' | 'breaker_open'
  /** UTC epoch ms. */
  readonly until: number
}

export interface Permits {
  /** How many calls may begin in this turn. */
  readonly open: number
  /** Those that have. */
  taken: number
  /** The last that was taken, by its request. */
  takenBy: number | null
  /** Of a pause that lasts: until when. */
  readonly waits: Wait | null
  /** When the next may begin, with those taken, UTC epoch ms; null: time alone does not tell. */
  opensAt(): number | null
  /** Writes down what was taken. */
  save(): void
}

const NONE: readonly Permits[] = []

/** @returns the permits that each target's calls need; those of a bucket are the same for all that share it. */
export function permitsOf(turn: Turn): (target: ClaimTarget) => readonly Permits[] {
  const pauses = settlePauses(turn)
  const shared = new Map<string, readonly Permits[]>()

  function ofBucket(name: string): readonly Permits[] {
    const known = shared.get(name)
    if (known !== undefined) return known
    const limits = turn.input.claim.buckets[name] ?? UNLIMITED
    const made = [...pausePermits(turn, pauses, 'bucket', name, limits), ...limitPermits(turn, 'bucket', name, limits)]
    shared.set(name, made)
    return made
  }

  return (target) => {
    const { name } = target
    const { limits } = target.policy
    const { rate, concurrency, bucket } = limits
    if (rate === null && concurrency === null && bucket === undefined && pauses.length === 0) return NONE
    return [
      ...pausePermits(turn, pauses, 'target', name, limits),
      ...breakerPermits(turn, target),
      ...limitPermits(turn, 'target', name, limits),
      ...(bucket === undefined ? NONE : ofBucket(bucket)),
    ]
  }
}

const UNLIMITED: Limits = { concurrency: null, rate: null }

function pausePermits(
  { sql, word, breakers }: Turn,
  pauses: readonly TimedPauseRow[],
  scope: TimedPauseRow['scope'],
  of: string,
  limits: Limits,
): readonly Permits[] {
  const own = pauses.filter((pause) => pause.scope === scope && pause.name === of)
  const isOpen = breakers.get(of)?.kind === 'open'
  // While a breaker is open, its own permits say more than its pause.
  const counted = own.filter(({ cause }) => !(cause === 'breaker' && isOpen))
  return counted.map(({ cause, until, begun, ramp_ms }): Permits => {
    const isOver = word.now >= until
    const open = isOver ? rampAllowance(limits, ramp_ms, word.now - until) - begun : 0
    return {
      open,
      taken: 0,
      takenBy: null,
      waits: isOver ? null : { why: 'told_to_wait', until },
      opensAt() {
        return isOver ? until + rampOpensAfterMs(limits, ramp_ms, begun + this.taken) : until
      },
      save() {
        if (this.taken > 0) sql.countBegun.run(this.taken, scope, of, cause)
      },
    }
  })
}

/** The rate and the concurrency, of a target or of a bucket. */
function limitPermits(
  { sql, word }: Turn,
  scope: WaitScope,
  name: string,
  { rate, concurrency }: Limits,
): readonly Permits[] {
  const { tokens, saveTokens, invoking } =
    scope === 'target'
      ? { tokens: sql.targetTokens, saveTokens: sql.saveTargetTokens, invoking: sql.invokingOf }
      : { tokens: sql.bucketTokens, saveTokens: sql.saveBucketTokens, invoking: sql.invokingOfBucket }
  const made: Permits[] = []
  if (rate !== null) {
    const stored = (tokens.get(name) as Tokens | undefined) ?? null
    made.push(ratePermits(rate, stored, word.now, (left) => saveTokens.run(name, left.tokens, left.at)))
  }
  if (concurrency !== null) made.push(slotPermits(concurrency - (invoking.get(name) as number)))
  return made
}

function ratePermits(rate: RateLimit, stored: Tokens | null, now: number, save: (left: Tokens) => void): Permits {
  const { tokens, at } = refill(stored, rate, now)
  const left = (taken: number): Tokens => ({ tokens: tokens - taken, at })
  return {
    open: Math.floor(tokens),
    taken: 0,
    takenBy: null,
    waits: null,
    opensAt() {
      return nextTokenAt(left(this.taken), rate)
    },
    save() {
      // A clock that was set back must be known, or nothing is ever earned by it.
      const isSetBack = stored !== null && wasSetBack(stored.at, now)
      if (this.taken > 0 || isSetBack) save(left(this.taken))
    },
  }
}

function slotPermits(open: number): Permits {
  return { open, taken: 0, takenBy: null, waits: null, opensAt: () => null, save: () => {} }
}

/** Of one that lets any number begin, none. */
function breakerPermits(turn: Turn, { name: target, policy }: ClaimTarget): readonly Permits[] {
  const breaker = policy.breaker === null ? undefined : turn.breakers.get(target)
  const { word, input } = turn
  const allowed = callsAllowed(breaker ?? null, word.now)
  if (breaker?.kind !== 'open' || allowed === 'any') return NONE
  const probing: Permits = {
    open: allowed === 'probe' ? 1 : 0,
    taken: 0,
    takenBy: null,
    waits: allowed === 'none' ? { until: breaker.probeAt, why: 'breaker_open' } : null,
    opensAt() {
      return this.taken > 0 ? word.now + input.leaseMs : breaker.probeAt
    },
    save() {
      if (this.takenBy === null) return
      saveBreaker(turn, target, breaker, beginProbe(breaker, this.takenBy, word.now, input.leaseMs))
    },
  }
  return [probing]
}
