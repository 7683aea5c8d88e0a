// A declarative target after parsing: defaults filled in, durations in ms, expressions still as text.
// It is plain JSON, so that it can be stored with the attempts that used it and read back.
import type { RetryPolicy } from '../core/backoff.ts'
import type { BreakerPolicy } from '../core/breaker.ts'
import type { OutcomeKind } from '../core/outcome.ts'
import type { Dedupe, FailedFirst, OnDead, RecoveryRung, TargetLimits, WaitPolicy } from '../core/policy.ts'

/** Text that may hold `{% ... %}`. */
export type Template = string
/** Any JSON whose strings may hold `{% ... %}`. */
export type TemplateValue =
  | null
  | boolean
  | number
  | string
  | readonly TemplateValue[]
  | { readonly [name: string]: TemplateValue }

export interface KeyFormat {
  readonly kind: 'uuid' | 'hex' | 'sf-string'
  /** Characters of a hex key; at least 30 (120 bits). */
  readonly length: number
}

export interface BodyDefinition {
  readonly kind: 'json' | 'form' | 'text' | 'none'
  /** json: any template value; form: an object; text: a template; none: null. */
  readonly template: TemplateValue
}

export interface SubmitDefinition {
  readonly method: string
  readonly url: Template
  readonly headers: Readonly<Record<string, Template>>
  readonly body: BodyDefinition
  readonly timeoutMs: number
  readonly connectMs: number
  readonly headersMs: number
  readonly bodyMs: number
  readonly maxResponseBytes: number
  readonly connection: 'reuse' | 'fresh'
}

export interface SideCallDefinition {
  readonly method: string
  readonly url: Template
  readonly headers: Readonly<Record<string, Template>>
  readonly body: BodyDefinition
  readonly timeoutMs: number
}

export interface IdempotencyDefinition {
  readonly clientId: boolean
  /** Header that carries the key by itself; null where the key stands in the body, the query, the path or a written header. */
  readonly header: string | null
  readonly format: KeyFormat
  readonly rememberedForMs: number | 'forever' | null
  readonly marginMs: number
  readonly arrivalMs: number
  readonly failedFirst: FailedFirst
  readonly maxReplays: number
}

/** When a miss counts, and what it means. */
export interface LookupTimes {
  readonly settleMs: number
  readonly everyMs: number
  readonly misses: number
  readonly missMeans: 'absent' | 'hold'
  readonly remembersMs: number | 'forever' | null
}

export interface LookupDefinition extends SideCallDefinition, LookupTimes {
  /** Yields nothing, a value or an array of values. */
  readonly taskId: Template
  readonly complete: Template | boolean
  /** `outcomes`-like: which answers are healthy; absent: 200, and 404 counts as an empty listing. */
  readonly found: Template | null
  readonly absent: Template | null
}

export interface OutcomeRule {
  readonly when: Template
  readonly is: OutcomeKind
  /** Where the id is when `is` is `exists` or `accepted`; default the target's `taskId`. */
  readonly taskId: Template | null
}

export interface StatusDefinition extends SideCallDefinition {
  readonly state: Template
  readonly succeeded: readonly string[]
  readonly failed: readonly string[]
  readonly pending: readonly string[]
  readonly everyMs: number
}

/** What the rules of safety weigh beside the calls themselves: the same of a described target and of one in code. */
export interface CareDefinition {
  readonly submit: { readonly timeoutMs: number }
  readonly idempotency: Omit<IdempotencyDefinition, 'header'> | null
  readonly lookup: LookupTimes | null
  readonly recovery: readonly RecoveryRung[]
  readonly retry: RetryPolicy
  readonly deadlineMs: number
  readonly limits: TargetLimits
  readonly rateLimit?: Partial<WaitPolicy>
  /** Not there where it is the default one; null: none. */
  readonly breaker?: BreakerPolicy | null
  readonly dedupe: Dedupe
  /** Not there where payloads leave with the settlement, so that descriptions without it keep their version. */
  readonly keepPayloadMs?: number
  /** `ordering.onDead`; not there where nobody says it, for the same reason. */
  readonly onDead?: OnDead
  /** Not there where requests have no deadline of their target's. */
  readonly expiresAfterMs?: number
  /** Not there where priorities alone count. */
  readonly agingMs?: number
  /** Freezes which account is meant; null: a described target takes a keyed fingerprint of the credentials. */
  readonly account: string | null
}

export interface TargetDefinition extends CareDefinition {
  readonly name: string
  readonly submit: SubmitDefinition
  readonly idempotency: IdempotencyDefinition | null
  /** Null: `taskId: none`. */
  readonly taskId: Template | null
  /** Statuses that are success; default 200, 201, 202. */
  readonly success: readonly number[]
  readonly outcomes: readonly OutcomeRule[]
  /** `exists.ours`. */
  readonly existsOurs: Template | null
  readonly lookup: LookupDefinition | null
  readonly rateLimit: NonNullable<CareDefinition['rateLimit']> & {
    readonly statuses: readonly number[]
    /** Names with an optional unit. */
    readonly headers: readonly string[]
    /** `Name` or `Name: value`; not there: a status that refuses credentials is a limit where a wait is told. */
    readonly signs?: readonly string[]
  }
  readonly cancel: SideCallDefinition | null
  readonly status: StatusDefinition | null
}
