// What may hold calls back in one turn: the rate and the concurrency of a target, the same of a bucket that several targets
// share, and a pause that ends by itself, with the ramp after it. Each says how many calls it lets begin, and is charged by those that
// do, in the transaction that claims them: so it holds for all processes together.
import type { Limits, RateLimit } from '../../core/policy.ts'
import { RAMP_MS, rampAllowance, rampOpensAfterMs } from '../../core/ramp.ts'
import { type Bucket, nextTokenAt, refill } from '../../core/token-bucket.ts'
import type { ClaimTarget } from '../turn.ts'
import type { Statements } from './statements.ts'
import type { Turn } from './turn-context.ts'

export interface Permits {
  /** How many calls may begin in this turn. */
  readonly open: number
  taken: number
  /** Of a pause that lasts: until when. */
  readonly waitsUntil: number | null
  /** When the next may begin, with those taken; null: time alone does not tell. */
  opensAt(): number | null
  /** Writes down what was taken. */
  save(): void
}

export interface TimedPauseRow {
  readonly scope: 'target' | 'bucket'
  readonly name: string
  readonly cause: string
  readonly since: number
  readonly until: number
  readonly told_by: string
  readonly begun: number
}

const NONE: readonly Permits[] = []

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

  return ({ name, policy: { limits } }) => {
    const { rate, concurrency, bucket } = limits
    if (rate === null && concurrency === null && bucket === undefined && pauses.length === 0) return NONE
    const made = [...pausePermits(turn, pauses, 'target', name, limits)]
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
function currentPauses({ sql, word }: Turn): readonly TimedPauseRow[] {
  const rows = sql.timedPauses.all() as TimedPauseRow[]
  return rows.filter(({ scope, name, cause, until }) => {
    if (word.now < until + RAMP_MS) return true
    sql.endTimedPause.run(scope, name, cause)
    return false
  })
}

function read(tokens: Statements['targetTokens'], name: string): Bucket | null {
  return (tokens.get(name) as Bucket | undefined) ?? null
}

function pausePermits(
  { sql, word }: Turn,
  pauses: readonly TimedPauseRow[],
  scope: TimedPauseRow['scope'],
  of: string,
  limits: Limits,
): readonly Permits[] {
  const own = pauses.filter((pause) => pause.scope === scope && pause.name === of)
  return own.map(({ cause, until, begun }): Permits => {
    const isOver = word.now >= until
    const open = isOver ? rampAllowance(limits, word.now - until) - begun : 0
    return {
      open,
      taken: 0,
      waitsUntil: isOver ? null : until,
      opensAt() {
        return isOver ? until + rampOpensAfterMs(limits, begun + this.taken) : until
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
    waitsUntil: null,
    opensAt() {
      return nextTokenAt(left(this.taken), rate)
    },
    save() {
      if (this.taken > 0) save(left(this.taken))
    },
  }
}

function slotPermits(open: number): Permits {
  return { open, taken: 0, waitsUntil: null, opensAt: () => null, save: () => {} }
}
