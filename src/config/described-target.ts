// A target that is described as data, given in code: the YAML of a config as a typed function.
import type { OutcomeKind } from '../core/outcome.ts'
import type { PayloadInput, PayloadSchema } from '../core/payload-schema.ts'
import type { CodeTargetPolicy, Duration, WaitDescription } from './code-target.ts'
import type { Template, TemplateValue } from './target-definition.ts'

/** One call of a described target. */
export interface CallDescription {
  readonly method?: string
  readonly url: Template
  readonly headers?: Readonly<Record<string, Template | number | boolean>>
  /** One of `body` (JSON), `form`, `text`; `body: 'none'` for no body. */
  readonly body?: TemplateValue
  readonly form?: Readonly<Record<string, TemplateValue>>
  readonly text?: Template
  readonly timeoutMs?: Duration
}

/** README, "The config", says what each field means and its default. `{% ... %}` in text is an expression. */
export interface TargetDescription
  extends Pick<
    CodeTargetPolicy,
    | 'recovery'
    | 'retry'
    | 'deadlineMs'
    | 'limits'
    | 'breaker'
    | 'dedupe'
    | 'keepPayload'
    | 'expiresAfter'
    | 'aging'
    | 'ordering'
    | 'account'
  > {
  readonly submit: CallDescription & {
    readonly connectMs?: Duration
    readonly headersMs?: Duration
    readonly bodyMs?: Duration
    readonly maxResponseBytes?: number
    readonly connection?: 'reuse' | 'fresh'
  }
  readonly idempotency?: NonNullable<CodeTargetPolicy['idempotency']> & { readonly header?: string }
  /** Where the id is in the answer; `none` where there is none. Required unless the key is the id. */
  readonly taskId?: Template
  readonly success?: readonly number[]
  readonly outcomes?: readonly { readonly when: Template; readonly is: OutcomeKind; readonly taskId?: Template }[]
  readonly exists?: { readonly ours?: Template }
  readonly lookup?: CallDescription &
    Omit<NonNullable<CodeTargetPolicy['lookup']>, 'by'> & {
      readonly taskId: Template
      readonly complete?: Template | boolean
      readonly found?: Template
      readonly absent?: Template
    }
  readonly rateLimit?: WaitDescription & {
    readonly statuses?: readonly number[]
    /** With a unit where the value needs one: `X-Reset epoch-s`. */
    readonly headers?: readonly string[]
    /** `Retry-After`, `X-RateLimit-Remaining: 0`: what tells a limit's 403 from one for the credentials. */
    readonly signs?: readonly string[]
  }
  readonly cancel?: CallDescription
  readonly status?: CallDescription & {
    readonly state: Template
    readonly succeeded: readonly string[]
    readonly failed?: readonly string[]
    readonly pending?: readonly string[]
    readonly everyMs?: Duration
  }
}

/** A described target, as `httpTarget` gives it to `openOnceish` or to a config. */
export interface DescribedTarget<Name extends string = string, Payload = unknown> {
  readonly kind: 'described'
  readonly name: Name
  readonly payload: PayloadSchema | null
  readonly description: TargetDescription
  /** For types only. */
  readonly payloadInput?: Payload
}

/**
 * A target of a config, given in code. Nothing is checked before it is opened: then all faults are told at once.
 * @param options `name` and the description; `payload`, a schema, types and checks what is enqueued for it.
 */
export function httpTarget<const Name extends string, Schema extends PayloadSchema = PayloadSchema>(
  options: TargetDescription & { readonly name: Name; readonly payload?: Schema },
): DescribedTarget<Name, PayloadInput<Schema>> {
  const { name, payload = null, ...description } = options
  return Object.freeze({ kind: 'described', name, payload, description })
}
