// What limits the targets of one schedule have: rates and concurrencies, some of them shared, and breakers that open soon. Most
// schedules have none.
import type { CodeTargetPolicy } from '../../src/index.ts'
import type { Kind } from './api-model.ts'

export interface Rate {
  readonly count: number
  /** In ms. */
  readonly per: number
  readonly burst: number
}

export interface Limit {
  readonly rate?: Rate
  readonly concurrency?: number
}

/** As a target's policy has it; durations are numbers of ms. */
export interface Care extends Pick<CodeTargetPolicy, 'limits' | 'rateLimit' | 'breaker'> {
  readonly limits?: Limit & { readonly bucket?: string }
  readonly rateLimit: { readonly rampMs: number; readonly scope?: 'target' }
  readonly breaker?: {
    readonly failures: number
    readonly probeAfter: number
    readonly maxProbeAfter: number
    readonly rate?: { readonly share: number; readonly calls: number; readonly within: number }
  }
}

export interface Regime {
  readonly name: string
  /** Its API tells how long to wait, and now and then nobody listens. */
  readonly isStrict?: boolean
  readonly buckets: Readonly<Record<string, Limit>>
  readonly care: Readonly<Partial<Record<Kind, Care>>>
}

/** No limits, and the breakers that every target has. */
export const FREE: Regime = { name: 'no limits', buckets: {}, care: {} }

/**
 * What holds in whatever order turns are committed that run at once: rates and concurrencies. Of waits and breakers those that watch
 * are told by that order.
 */
export const CROWDED: Regime = {
  name: 'limits in a crowd',
  buckets: { account: { rate: { count: 2, per: 700, burst: 2 }, concurrency: 2 } },
  care: {
    keyed: { limits: { bucket: 'account' }, rateLimit: { rampMs: 0 } },
    stores: { limits: { bucket: 'account', concurrency: 1 }, rateLimit: { rampMs: 0 } },
    named: { limits: { concurrency: 1 }, rateLimit: { rampMs: 0 } },
    listed: { limits: { rate: { count: 1, per: 600, burst: 1 } }, rateLimit: { rampMs: 0 } },
    opaque: { limits: { bucket: 'account' }, rateLimit: { rampMs: 0 } },
  },
}

const SOON = { failures: 2, probeAfter: 400, maxProbeAfter: 1600 } as const
const LATER = { failures: 3, probeAfter: 1200, maxProbeAfter: 2400 } as const
const SLOW_START = { rampMs: 2000 } as const
const AT_ONCE = { rampMs: 0 } as const
const IN_ACCOUNT = { limits: { bucket: 'account' }, rateLimit: SLOW_START, breaker: SOON } as const

export const REGIMES: readonly Regime[] = [
  {
    name: 'one account',
    isStrict: true,
    buckets: { account: { rate: { count: 1, per: 700, burst: 2 }, concurrency: 3 } },
    care: { keyed: IN_ACCOUNT, stores: IN_ACCOUNT, named: IN_ACCOUNT, listed: IN_ACCOUNT, opaque: IN_ACCOUNT },
  },
  {
    name: 'two accounts',
    isStrict: true,
    buckets: { rated: { rate: { count: 2, per: 1000, burst: 1 } }, single: { concurrency: 1 } },
    care: {
      keyed: {
        limits: { bucket: 'rated', rate: { count: 1, per: 900, burst: 1 } },
        rateLimit: { ...SLOW_START, scope: 'target' },
        breaker: LATER,
      },
      stores: { limits: { bucket: 'rated' }, rateLimit: SLOW_START, breaker: SOON },
      named: { limits: { bucket: 'single' }, rateLimit: AT_ONCE, breaker: SOON },
      listed: { limits: { bucket: 'single' }, rateLimit: SLOW_START, breaker: LATER },
      opaque: { limits: { rate: { count: 1, per: 500, burst: 1 } }, rateLimit: SLOW_START },
    },
  },
  {
    name: 'each alone',
    isStrict: true,
    buckets: {},
    care: {
      keyed: {
        limits: { rate: { count: 1, per: 600, burst: 2 } },
        rateLimit: SLOW_START,
        breaker: { ...LATER, rate: { share: 0.5, calls: 3, within: 4000 } },
      },
      stores: { limits: { concurrency: 1 }, rateLimit: SLOW_START, breaker: { ...SOON, failures: 1 } },
      named: { limits: { rate: { count: 1, per: 300, burst: 1 }, concurrency: 2 }, rateLimit: AT_ONCE, breaker: SOON },
      listed: { limits: { rate: { count: 1, per: 1000, burst: 1 } }, rateLimit: AT_ONCE, breaker: SOON },
      opaque: { limits: { concurrency: 2 }, rateLimit: SLOW_START, breaker: SOON },
    },
  },
  {
    name: 'breakers alone',
    isStrict: true,
    buckets: {},
    care: {
      keyed: { rateLimit: AT_ONCE, breaker: SOON },
      stores: { rateLimit: AT_ONCE, breaker: LATER },
      named: { rateLimit: AT_ONCE, breaker: SOON },
      listed: { rateLimit: AT_ONCE, breaker: SOON },
      opaque: { rateLimit: AT_ONCE, breaker: { ...SOON, failures: 1 } },
    },
  },
]

/** A limit of one target, or of all that share a bucket. */
export interface Scope {
  /** The target's name, or the bucket's. */
  readonly name: string
  readonly kind: 'target' | 'bucket'
  readonly limit: Limit
  readonly members: readonly Kind[]
}

/** All that the calls of `kind` count for. */
export function scopesOf({ buckets, care }: Regime, kind: Kind): readonly Scope[] {
  const limits = care[kind]?.limits
  const own: Scope = { name: kind, kind: 'target', limit: limits ?? {}, members: [kind] }
  if (limits?.bucket === undefined) return [own]
  const members = (Object.keys(care) as Kind[]).filter((other) => care[other]?.limits?.bucket === limits.bucket)
  return [own, { name: limits.bucket, kind: 'bucket', limit: buckets[limits.bucket] ?? {}, members }]
}

/** Whom a wait stops that an answer to `kind` told. */
export function waitScopeOf(regime: Regime, kind: Kind): Scope {
  const [own, shared] = scopesOf(regime, kind)
  return (shared !== undefined && regime.care[kind]?.rateLimit.scope !== 'target' ? shared : own) as Scope
}
