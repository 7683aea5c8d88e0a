// A target whose calls are the user's own code, as they write it. The same care is asked of it as of a described one.
import type { PayloadInput, PayloadOutput, PayloadSchema } from '../core/payload-schema.ts'
import type { Dedupe, FailedFirst, OnDead, RecoveryRung, WaitScope } from '../core/policy.ts'
import type { KeyFormat } from './target-definition.ts'

/** Milliseconds, or text such as `500ms`, `90s`, `15m`, `24h`, `7d`. */
export type Duration = number | string

/** What an API calls what it made. Numbers beyond 2^53 are no ids: read them as text or BigInt. */
export type GivenTaskId = string | number | bigint

/** One call, made once. */
export interface Invocation<Payload> {
  readonly payload: Payload
  /** The idempotency key, in the target's format; null where the policy has no `idempotency`. The same for every repeat. */
  readonly key: string | null
  readonly requestId: number
  readonly logicalHash: string
  /** Rises when a request is to make a new task; part of the key. */
  readonly generation: number
  readonly priority: number
  /** Ends at the call's deadline, `timeoutMs` after its start and before its lease: pass it to whatever makes the call. */
  readonly signal: AbortSignal
  /**
   * Call it right before the bytes leave where something long came first (signing, uploading, a queue of your own).
   * @throws NotExecutedError when the lease no longer covers a whole call: let it pass.
   */
  readonly ensureLease: () => void
}

/** What a call proved: a task, or that the API has it already. Whatever else it proved is thrown, see `NotExecutedError`. */
export type SubmitResult =
  | { readonly taskId: GivenTaskId }
  /** `ours`: it was compared with our key. `taskId` null: it is there, and its id is looked up or replayed for. */
  | { readonly kind: 'exists'; readonly ours: boolean; readonly taskId: GivenTaskId | null }

/** A question about one call that was made. */
export interface Inquiry<Payload> extends Omit<Invocation<Payload>, 'ensureLease'> {
  /** Null in a lookup, mostly: the id is what it looks for. */
  readonly taskId: string | null
}

/** `absent` says that the listing was healthy and complete and does not show it; whether it counts is the policy's. */
export type LookupAnswer =
  | { readonly kind: 'found'; readonly taskId: GivenTaskId }
  | { readonly kind: 'absent' }
  | { readonly kind: 'undetermined'; readonly note?: string; readonly retryAfterMs?: number }
  /** Several distinct tasks: a person decides. */
  | { readonly kind: 'ambiguous'; readonly taskIds: readonly GivenTaskId[] }

/** `gone`: the API no longer knows the task. */
export type StatusAnswer = 'pending' | 'succeeded' | 'failed' | 'gone'

/** `10/s`, `600/min`, or with a burst. */
export type RateDescription = string | { readonly count: number; readonly per: Duration; readonly burst?: number }

/** What to do where the API tells to wait. */
export interface WaitDescription {
  /** A request that is told to wait for longer is parked; default 1 h. */
  readonly maxWaitMs?: Duration
  /** Whom the wait stops; default the bucket, where there is one. */
  readonly scope?: WaitScope
  /** How long calls then take to be as many as the limit allows; default 24 s, 0: at once. */
  readonly rampMs?: Duration
}

/** When calls stop by themselves, and when one of them tries whether they may go on. */
export interface BreakerDescription {
  /** In a row; default 20. Refused requests and told waits count neither way. */
  readonly failures?: number
  /** Also so large a share of at least so many calls within so long. */
  readonly rate?: { readonly share: number; readonly calls: number; readonly within: Duration }
  /** Default 30 s; twice as long after each probe that fails. */
  readonly probeAfter?: Duration
  /** Default 10 min. */
  readonly maxProbeAfter?: Duration
}

/** How careful to be; every field as in a described target, with the same defaults and the same rules. */
export interface CodeTargetPolicy {
  /** The whole call, default 30 s; at least 500 ms shorter than `worker.leaseMs`. */
  readonly timeoutMs?: Duration
  readonly idempotency?: {
    /** The key is the resource's own id. */
    readonly clientId?: boolean
    readonly format?: KeyFormat['kind'] | { readonly kind: KeyFormat['kind']; readonly length?: number }
    /** How long the API remembers the key; absent: nobody knows, so it is never replayed. */
    readonly rememberedFor?: Duration | 'forever'
    readonly margin?: Duration
    /** How late bytes already sent can still arrive, default 30 s. */
    readonly arrivalMs?: Duration
    readonly failedFirst?: FailedFirst
    readonly maxReplays?: number
  }
  readonly lookup?: {
    /** What the lookup asks by: default `key` where there is one. By `payload` equal payloads are the same. */
    readonly by?: 'key' | 'payload'
    readonly settleMs?: Duration
    readonly everyMs?: Duration
    readonly misses?: number
    readonly missMeans?: 'absent' | 'hold'
    readonly remembers?: Duration | 'forever'
  }
  readonly status?: { readonly everyMs?: Duration }
  /** `none`: the API gives no ids, so a call that returns is accepted without one. */
  readonly taskId?: 'none'
  readonly recovery?: readonly RecoveryRung[]
  readonly retry?: { readonly maxAttempts?: number; readonly initialMs?: Duration; readonly maxMs?: Duration }
  readonly deadlineMs?: Duration
  readonly limits?: {
    readonly concurrency?: number
    readonly rate?: RateDescription
    /** A bucket of the config that it shares with other targets, beside its own limits. */
    readonly bucket?: string
  }
  /** What to do where the API tells to wait. */
  readonly rateLimit?: WaitDescription
  /** What stops the calls of a target that fails; `false`: nothing. Default: 20 failures in a row, the first probe after 30 s. */
  readonly breaker?: BreakerDescription | false
  readonly dedupe?: Dedupe
  /** How long payloads are kept after their settlement; absent: they leave with it. */
  readonly keepPayload?: Duration
  /** Whether a dead request keeps those of its ordering key waiting; default `block`. */
  readonly ordering?: { readonly onDead?: OnDead }
  /** How long after its due time a request expires that names no deadline of its own; absent: never. */
  readonly expiresAfter?: Duration
  /** How much waiting one step of priority is worth, at most 30 days; absent: priorities alone count, and low ones may starve. */
  readonly aging?: Duration
  /** Which account the calls go to: where it differs from that of a call in doubt, a person decides. */
  readonly account?: string
}

/** What `defineTarget` takes. */
export interface CodeTargetOptions<Schema extends PayloadSchema = PayloadSchema> {
  /** Letters, digits, `.`, `_`, `-`; at most 100. */
  readonly name: string
  /** Change it with whatever changes what a call does: doubt is settled only by the version that made it. 1 to 64 characters. */
  readonly version: string
  /** Its output is stored and must be plain JSON. */
  readonly payload: Schema
  /** Called at most once an attempt. May throw the errors of a submission; anything else that it throws is `unknown`. */
  readonly invoke: (
    call: Invocation<PayloadOutput<Schema>>,
    // biome-ignore lint/suspicious/noConfusingVoidType: a function that returns nothing is what `taskId: none` is for
  ) => Promise<SubmitResult | void> | SubmitResult | void
  /** Asks whether the call's task is there; what it throws says that it could not be asked. */
  readonly lookup?: (question: Inquiry<PayloadOutput<Schema>>) => Promise<LookupAnswer> | LookupAnswer
  /** Cancels a task at the API; what it throws says that it could not. */
  readonly cancel?: (question: Inquiry<PayloadOutput<Schema>> & { readonly taskId: string }) => Promise<void> | void
  /** What became of a submitted task; the payload is gone by then. */
  readonly status?: (question: Omit<Inquiry<never>, 'payload'>) => Promise<StatusAnswer> | StatusAnswer
  readonly policy?: CodeTargetPolicy
  /** Values that must never be stored or shown: redacted from errors and notes. Undefined ones are passed over. */
  readonly secrets?: readonly (string | undefined)[]
}

/** A target in code, as `defineTarget` gives it to `openOnceish` or to a config. */
export interface CodeTarget<Name extends string = string, Payload = unknown> {
  readonly kind: 'code'
  readonly name: Name
  readonly options: CodeTargetOptions
  /** For types only. */
  readonly payloadInput?: Payload
}

/**
 * A target whose calls are code. Nothing is checked before it is opened: then all faults are told at once.
 * @returns what `openOnceish({ targets: [...] })` takes, typed by its payload.
 */
export function defineTarget<const Name extends string, Schema extends PayloadSchema>(
  options: CodeTargetOptions<Schema> & { readonly name: Name },
): CodeTarget<Name, PayloadInput<Schema>> {
  return Object.freeze({ kind: 'code', name: options.name, options: options as unknown as CodeTargetOptions })
}
