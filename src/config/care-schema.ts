// How careful to be with a target, as people write it: the parts that described targets and code targets share, with
// their only defaults. Whether the whole can be kept safe is judged in safety.ts.
import { z } from 'zod'
import { type BreakerPolicy, DEFAULT_BREAKER } from '../core/breaker.ts'
import {
  DEDUPES,
  type Limits,
  type OnDead,
  type RateLimit,
  type RecoveryRung,
  type TargetLimits,
  type WaitPolicy,
} from '../core/policy.ts'
import { MAX_AGING_MS } from '../core/ranking.ts'
import { convert, duration, memory, partly, rate, section, whole } from './schema-parts.ts'
import type { CareDefinition, IdempotencyDefinition, KeyFormat, LookupTimes } from './target-definition.ts'

const DAY_MS = 86_400_000
const KEY_KINDS = ['uuid', 'hex', 'sf-string'] as const
const KEY_LENGTHS = { uuid: 36, hex: 32, 'sf-string': 36 } as const satisfies Record<KeyFormat['kind'], number>

/** What a timer can wait. */
const LONGEST_CALL_MS = 2 ** 31 - 1

export const timeoutField = duration({ min: 1, max: LONGEST_CALL_MS }).default(30_000)

const formatSection = section({ kind: z.enum(KEY_KINDS), length: whole(1, 64).optional() })
/** `uuid`, or `{ kind: hex, length: 40 }`. */
const formatSchema = z.preprocess((value) => (typeof value === 'string' ? { kind: value } : value), formatSection)

export const keyFields = {
  clientId: z.boolean().default(false),
  format: formatSchema.prefault('uuid'),
  rememberedFor: memory().optional(),
  margin: duration().optional(),
  arrivalMs: duration().default(30_000),
  failedFirst: z.enum(['replayed', 'reexecuted', 'continued', 'unknown']).default('unknown'),
  maxReplays: whole(0, 10_000).default(20),
}

export const lookupTimeFields = {
  settleMs: duration().default(60_000),
  everyMs: duration({ min: 1 }).optional(),
  misses: whole(1, 1000).default(2),
  missMeans: z.enum(['absent', 'hold']).default('hold'),
  remembers: memory().optional(),
}

export const statusEveryField = duration({ min: 1 }).default(5000)

const retrySchema = section({
  maxAttempts: whole(1, 1000).default(8),
  initialMs: duration({ min: 1 }).default(1000),
  maxMs: duration({ min: 1 }).default(300_000),
})

const limitFields = { concurrency: whole(1, 100_000).optional(), rate: rate().optional() }

function limitsOf({ concurrency, rate }: { concurrency?: number | undefined; rate?: RateLimit | undefined }): Limits {
  return { concurrency: concurrency ?? null, rate: rate ?? null }
}

/** Limits that several targets share. */
export const bucketSchema = section(limitFields).transform(limitsOf)

/** What to do where the API tells to wait; nothing is filled in, so that descriptions without it keep their version. */
export const waitFields = {
  maxWaitMs: duration({ min: 1 }).optional(),
  scope: z.enum(['target', 'bucket']).optional(),
  rampMs: duration().optional(),
}

/** `false`: nothing but a person's word or the API's stops its calls. */
function breaker() {
  return convert((value): BreakerPolicy | null => {
    if (value === false) return null
    const parsed = breakerSection.safeParse(value, { reportInput: true })
    if (!parsed.success)
      throw new Error(`expected false or { failures, rate, probeAfter, maxProbeAfter }${partly(parsed.error)}`)
    const { failures, rate, probeAfter: probeMs, maxProbeAfter } = parsed.data
    const share = rate === undefined ? null : { share: rate.share, calls: rate.calls, withinMs: rate.within }
    return { failures, rate: share, probeMs, maxProbeMs: Math.max(probeMs, maxProbeAfter) }
  })
}

const breakerSection = section({
  failures: whole(1, 100_000).default(DEFAULT_BREAKER.failures),
  rate: section({
    share: z.number().gt(0).max(1),
    calls: whole(2, 1_000_000),
    within: duration({ min: 1 }),
  }).optional(),
  probeAfter: duration({ min: 1 }).default(DEFAULT_BREAKER.probeMs),
  maxProbeAfter: duration({ min: 1 }).default(DEFAULT_BREAKER.maxProbeMs),
})

type WrittenWait = z.output<z.ZodObject<typeof waitFields>>

export function waitOf({ maxWaitMs, scope, rampMs }: WrittenWait): Partial<WaitPolicy> {
  return {
    ...(maxWaitMs !== undefined && { maxWaitMs }),
    ...(scope !== undefined && { scope }),
    ...(rampMs !== undefined && { rampMs }),
  }
}

/** What stands beside the calls themselves. */
export const careFields = {
  recovery: z.array(z.enum(['lookup', 'replay', 'hold'])).optional(),
  retry: retrySchema.prefault({}),
  deadlineMs: duration({ min: 1 }).default(DAY_MS),
  limits: section({ ...limitFields, bucket: z.string().min(1).optional() })
    .transform(
      ({ bucket, ...limits }): TargetLimits => ({ ...limitsOf(limits), ...(bucket !== undefined && { bucket }) }),
    )
    .prefault({}),
  breaker: breaker().optional(),
  dedupe: z.enum(DEDUPES).default('always'),
  keepPayload: duration({ min: 1 }).optional(),
  ordering: section({ onDead: z.enum(['block', 'continue']).optional() }).prefault({}),
  expiresAfter: duration({ min: 1 }).optional(),
  aging: duration({ min: 1, max: MAX_AGING_MS }).optional(),
  account: z.string().min(1).max(200).optional(),
}

/** Each is there only where it is written, so that descriptions without it keep their version. */
export function writtenOnly({
  keepPayload,
  expiresAfter,
  aging,
  ordering,
}: {
  readonly keepPayload?: number | undefined
  readonly expiresAfter?: number | undefined
  readonly aging?: number | undefined
  readonly ordering: { readonly onDead?: OnDead | undefined }
}): Pick<CareDefinition, 'keepPayloadMs' | 'expiresAfterMs' | 'agingMs' | 'onDead'> {
  return {
    ...(keepPayload === undefined ? {} : { keepPayloadMs: keepPayload }),
    ...(expiresAfter === undefined ? {} : { expiresAfterMs: expiresAfter }),
    ...(aging === undefined ? {} : { agingMs: aging }),
    ...(ordering.onDead === undefined ? {} : { onDead: ordering.onDead }),
  }
}

type WrittenKey = z.output<z.ZodObject<typeof keyFields>>
type WrittenLookupTimes = z.output<z.ZodObject<typeof lookupTimeFields>>

export function keyOf(written: WrittenKey): Omit<IdempotencyDefinition, 'header'> {
  const { clientId, arrivalMs, failedFirst, maxReplays } = written
  const rememberedForMs = written.rememberedFor ?? null
  return {
    clientId,
    format: { kind: written.format.kind, length: written.format.length ?? KEY_LENGTHS[written.format.kind] },
    rememberedForMs,
    marginMs: written.margin ?? defaultMargin(rememberedForMs),
    arrivalMs,
    failedFirst,
    maxReplays,
  }
}

function defaultMargin(rememberedForMs: number | 'forever' | null): number {
  return Math.max(60_000, typeof rememberedForMs === 'number' ? Math.ceil(rememberedForMs / 10) : 0)
}

export function lookupTimesOf({ settleMs, everyMs, misses, missMeans, remembers }: WrittenLookupTimes): LookupTimes {
  return { settleMs, everyMs: everyMs ?? Math.max(1000, settleMs), misses, missMeans, remembersMs: remembers ?? null }
}

export function ladderOf(
  written: readonly RecoveryRung[] | undefined,
  has: { readonly canLookup: boolean; readonly canReplay: boolean },
): readonly RecoveryRung[] {
  return (
    written ?? [...(has.canLookup ? ['lookup' as const] : []), ...(has.canReplay ? ['replay' as const] : []), 'hold']
  )
}
