// How careful to be with one target: plain data that decisions read. Filled by the config and by code targets.
import type { RetryPolicy } from './backoff.ts'
import { type BreakerPolicy, DEFAULT_BREAKER } from './breaker.ts'

/** How doubt is settled, in order. */
export type RecoveryRung = 'lookup' | 'replay' | 'hold'
/** The words of `dedupe`. */
export const DEDUPES = ['always', 'live', 'none'] as const
/** When a logical hash stands for one request: for good, until it is submitted, or never. */
export type Dedupe = (typeof DEDUPES)[number]
/** What a request that ended dead does to those behind it under its ordering key. */
export type OnDead = 'block' | 'continue'
/** What a repeat under a key gets after a failed first call. */
export type FailedFirst = 'replayed' | 'reexecuted' | 'continued' | 'unknown'

export interface KeyPolicy {
  /** The key is the resource's own id. */
  readonly clientId: boolean
  /** How long the API remembers the key (or the resource); null: unknown, so no replay. */
  readonly rememberedForMs: number | 'forever' | null
  readonly marginMs: number
  /** How late bytes already sent can still arrive. */
  readonly arrivalMs: number
  /** What a repeat under the same key gets after a failed first call. */
  readonly failedFirst: FailedFirst
  readonly maxReplays: number
}

/** Whether the API tells a repeat under the same key; a key that it only stores (a reference to look up by) proves nothing. */
export function tellsRepeats(key: KeyPolicy | null): key is KeyPolicy {
  return key !== null && (key.clientId || key.rememberedForMs !== null)
}

export interface LookupPolicy {
  /** Covers the latest arrival of bytes already sent plus the lookup's lag. */
  readonly settleMs: number
  readonly everyMs: number
  readonly misses: number
  readonly missMeans: 'absent' | 'hold'
  /** How long the API's lookup shows a submission; null: unknown, a miss never permits a call. */
  readonly remembersMs: number | 'forever' | null
  readonly dependsOnKey: boolean
}

export interface TargetPolicy {
  readonly timeoutMs: number
  readonly retry: RetryPolicy
  readonly recovery: readonly RecoveryRung[]
  readonly key: KeyPolicy | null
  readonly lookup: LookupPolicy | null
  readonly canCancel: boolean
  /** Null: a submitted task is nobody's concern any more. */
  readonly tracking: { readonly everyMs: number } | null
  /** Doubt older than this is held for a person. */
  readonly deadlineMs: number
  readonly dedupe: Dedupe
  /** How long the payload of a submitted request is kept; null: it leaves with the settlement. */
  readonly keepPayloadMs: number | null
  readonly limits: TargetLimits
  /** What a dead request does to those behind it. */
  readonly onDead: OnDead
  readonly rateLimit: WaitPolicy
  /** What opens the target's breaker; null: nothing does. */
  readonly breaker: BreakerPolicy | null
  /** How long after its due time a request that says nothing of it expires; null: never. */
  readonly expiresAfterMs: number | null
  /** How much waiting one step of priority is worth; null: priorities alone count. */
  readonly agingMs: number | null
}

/** Undefined: nobody describes the target. */
export type PolicyOf = (target: string) => TargetPolicy | undefined

/** How many calls, of all workers together; null: no limit. */
export interface Limits {
  /** In flight. */
  readonly concurrency: number | null
  readonly rate: RateLimit | null
}

export interface TargetLimits extends Limits {
  /** Name of a bucket that it shares with others, beside its own limits. */
  readonly bucket?: string
}

/** Sizes of shared buckets, by name. */
export type Buckets = Readonly<Record<string, Limits>>

/** Whom a wait that the API told stops: the target alone, or all that share its bucket. */
export type WaitScope = 'target' | 'bucket'

/** What to do where the API tells to wait. */
export interface WaitPolicy {
  /** A request that is told to wait for longer is parked. */
  readonly maxWaitMs: number
  /** `bucket`: where the target shares one. */
  readonly scope: WaitScope
  /** How long calls take, after a wait, to be as many as the limit allows. */
  readonly rampMs: number
}

const DEFAULT_WAIT: WaitPolicy = { maxWaitMs: 3_600_000, scope: 'bucket', rampMs: 24_000 }

/** Whom a wait stops, by name. */
export function waitScopeOf(target: string, { limits, rateLimit }: TargetPolicy): { scope: WaitScope; name: string } {
  const { bucket } = limits
  return bucket === undefined || rateLimit.scope === 'target'
    ? { scope: 'target', name: target }
    : { scope: 'bucket', name: bucket }
}

/** A token bucket. */
export interface RateLimit {
  /** In each `perMs`. */
  readonly count: number
  readonly perMs: number
  readonly burst: number
}

type Memory = number | 'forever' | null

/**
 * What both policies allow: doubt made under an old description is recovered by the stricter of that and the present one.
 */
export function stricterPolicy(frozen: TargetPolicy, present: TargetPolicy): TargetPolicy {
  return {
    ...present,
    canCancel: frozen.canCancel && present.canCancel,
    timeoutMs: Math.max(frozen.timeoutMs, present.timeoutMs),
    recovery: present.recovery.filter((rung) => frozen.recovery.includes(rung)),
    key: frozen.key && present.key && stricterKey(frozen.key, present.key),
    lookup: frozen.lookup && present.lookup && stricterLookup(frozen.lookup, present.lookup),
    deadlineMs: Math.min(frozen.deadlineMs, present.deadlineMs),
  }
}

function stricterKey(frozen: KeyPolicy, present: KeyPolicy): KeyPolicy {
  return {
    clientId: frozen.clientId && present.clientId,
    rememberedForMs: shorterMemory(frozen.rememberedForMs, present.rememberedForMs),
    marginMs: Math.max(frozen.marginMs, present.marginMs),
    arrivalMs: Math.max(frozen.arrivalMs, present.arrivalMs),
    failedFirst: frozen.failedFirst === present.failedFirst ? frozen.failedFirst : 'unknown',
    maxReplays: Math.min(frozen.maxReplays, present.maxReplays),
  }
}

function stricterLookup(frozen: LookupPolicy, present: LookupPolicy): LookupPolicy {
  return {
    settleMs: Math.max(frozen.settleMs, present.settleMs),
    everyMs: Math.max(frozen.everyMs, present.everyMs),
    misses: Math.max(frozen.misses, present.misses),
    missMeans: frozen.missMeans === 'absent' && present.missMeans === 'absent' ? 'absent' : 'hold',
    remembersMs: shorterMemory(frozen.remembersMs, present.remembersMs),
    dependsOnKey: frozen.dependsOnKey && present.dependsOnKey,
  }
}

function shorterMemory(a: Memory, b: Memory): Memory {
  if (a === null || b === null) return null
  if (a === 'forever') return b
  return b === 'forever' ? a : Math.min(a, b)
}

/** For a row whose target nobody describes: no call, no lookup, only a person. */
export const NO_POLICY: TargetPolicy = {
  timeoutMs: 60_000,
  retry: { maxAttempts: 1, initialMs: 1000, maxMs: 300_000 },
  recovery: ['hold'],
  key: null,
  lookup: null,
  canCancel: false,
  tracking: null,
  deadlineMs: 86_400_000,
  dedupe: 'always',
  keepPayloadMs: null,
  limits: { concurrency: null, rate: null },
  onDead: 'block',
  rateLimit: DEFAULT_WAIT,
  breaker: DEFAULT_BREAKER,
  expiresAfterMs: null,
  agingMs: null,
}
