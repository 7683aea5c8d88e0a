// What may hold calls back in one turn: the rate and the concurrency of a target, the same of a bucket that several targets
// share, and a pause that ends by itself, with the ramp after it. Each says how many calls it lets begin, and is charged by those that
// do, in the transaction that claims them: so it holds for all processes together.
import { beginProbe, callsAllowed } from '../../core/breaker.ts'
import { wasSetBack } from '../../core/clock.ts'
import { breakerOf, type Limits, type RateLimit } from '../../core/policy.ts'
import { rampAllowance, rampOpensAfterMs } from '../../core/ramp.ts'
import { type Bucket, nextTokenAt, refill } from '../../core/token-bucket.ts'
import type { ClaimTarget } from '../turn.ts'
import { saveBreaker } from './breakers.ts'
import type { TimedPauseRow } from './pauses.ts'
import type { Statements } from './statements.ts'
import type { Turn } from './turn-context.ts'

/** Whom time alone sets free. */
export interface Wait {
  readonly why: 'told_to_wait' | 'breaker_open'
  readonly until: number
}

export interface Permits {
  /** How many calls may begin in this turn. */
  readonly open: number
  taken: number
  /** The last that was taken, by its request. */
  takenBy: number | null
  /** Of a pause that lasts: until when. */
  readonly waits: Wait | null
  /** When the next may begin, with those taken; null: time alone does not tell. */
  opensAt(): number | null
  /** Writes down what was taken. */
  save(): void
}

const NONE: readonly Permits[] = []
/** Of the pause that goes with a breaker. */
const BREAKER_CAUSE = 'breaker'

/** @returns the permits that each target's calls need; those of a bucket are the same for all that share it. */
export function permitsOf(turn: Turn): (target: ClaimTarget) => readonly Permits[] {
  const { sql, input, word } = turn
  const pauses = currentPauses(turn)
  const shared = new Map<string, readonly Permits[]>()

  function ofBucket(name: string): readonly Permits[] {
    const known = shared.get(name)
    if (known !== undefined) return known
    const limits = input.claim.buckets?.[name] ?? UNLIMITED
    const made = [...pausePermits(turn, pauses, 'bucket', name, limits)]
    if (limits.rate !== null) {
      const { get, run } = { get: sql.bucketTokens, run: sql.saveBucketTokens }
      made.push(ratePermits(limits.rate, read(get, name), word.now, (left) => run.run(name, left.tokens, left.at)))
    }
    if (limits.concurrency !== null)
      made.push(slotPermits(limits.concurrency - (sql.invokingOfBucket.get(name) as number)))
    shared.set(name, made)
    return made
  }

  return (target) => {
    const { name } = target
    const { limits } = target.policy
    const { rate, concurrency, bucket } = limits
    if (rate === null && concurrency === null && bucket === undefined && pauses.length === 0) return NONE
    const made = [...pausePermits(turn, pauses, 'target', name, limits)]
    const ofBreaker = breakerPermits(turn, target)
    if (ofBreaker !== null) made.push(ofBreaker)
    if (rate !== null) {
      const tokens = read(sql.targetTokens, name)
      made.push(ratePermits(rate, tokens, word.now, (left) => sql.saveTargetTokens.run(name, left.tokens, left.at)))
    }
    if (concurrency !== null) made.push(slotPermits(concurrency - (sql.invokingOf.get(name) as number)))
    if (bucket !== undefined) made.push(...ofBucket(bucket))
    return made
  }
}

const UNLIMITED: Limits = { concurrency: null, rate: null }

/** Those whose ramp is over are removed: nothing is left of them that holds a call back. */
function currentPauses({ sql, word, breakers }: Turn): readonly TimedPauseRow[] {
  const rows = (sql.timedPauses.all() as TimedPauseRow[]).map((pause) => asOfNow(sql, pause, word.now))
  return rows.filter(({ scope, name, cause, until, ramp_ms }) => {
    // An open breaker's has no end before it is closed.
    if (word.now < until + ramp_ms || (cause === BREAKER_CAUSE && breakers.get(name)?.kind === 'open')) return true
    sql.endTimedPause.run(scope, name, cause)
    return false
  })
}

/** Where the clock has been set back behind its beginning, a pause begins anew: else it would last for as long as was lost. */
function asOfNow(sql: Statements, pause: TimedPauseRow, now: number): TimedPauseRow {
  if (!wasSetBack(pause.since, now)) return pause
  const moved = { ...pause, since: now, until: pause.until - (pause.since - now) }
  const { scope, name, cause, since, until } = moved
  sql.moveTimedPause.run({ scope, name, cause, since, until })
  return moved
}

function read(tokens: Statements['targetTokens'], name: string): Bucket | null {
  return (tokens.get(name) as Bucket | undefined) ?? null
}

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
  const counted = own.filter(({ cause }) => !(cause === BREAKER_CAUSE && isOpen))
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

function ratePermits(rate: RateLimit, stored: Bucket | null, now: number, save: (left: Bucket) => void): Permits {
  const bucket = refill(stored, rate, now)
  const left = (taken: number): Bucket => ({ tokens: bucket.tokens - taken, at: bucket.at })
  return {
    open: Math.floor(bucket.tokens),
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

/** Null: it lets any number begin. */
function breakerPermits(turn: Turn, { name: target, policy }: ClaimTarget): Permits | null {
  const breaker = breakerOf(policy) === null ? undefined : turn.breakers.get(target)
  const { word, input } = turn
  const allowed = callsAllowed(breaker ?? null, word.now)
  if (breaker?.kind !== 'open' || allowed === 'any') return null
  return {
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
}
