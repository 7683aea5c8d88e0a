// From a target in code as people write it to a CodeTargetDefinition; whether it can be kept safe is judged in safety.ts.
import { z } from 'zod'
import type { PayloadSchema } from '../core/payload-schema.ts'
import type { TargetPolicy } from '../core/policy.ts'
import {
  careFields,
  keyFields,
  keyOf,
  ladderOf,
  lookupTimeFields,
  lookupTimesOf,
  statusEveryField,
  timeoutField,
  waitFields,
  waitOf,
  writtenOnly,
} from './care-schema.ts'
import type { CodeTargetOptions } from './code-target.ts'
import { policyWith } from './policy.ts'
import { section } from './schema-parts.ts'
import type { CareDefinition } from './target-definition.ts'

type Calls = Pick<CodeTargetOptions, 'invoke'> & {
  readonly [Name in 'lookup' | 'cancel' | 'status']?: CodeTargetOptions[Name] | undefined
}

/** After parsing. */
export interface CodeTargetDefinition {
  readonly name: string
  readonly version: string
  readonly care: CareDefinition
  readonly policy: TargetPolicy
  readonly givesTaskId: boolean
  readonly secrets: readonly string[]
  readonly payload: PayloadSchema
  readonly calls: Calls
}

const policySchema = section({
  timeoutMs: timeoutField,
  idempotency: section(keyFields).optional(),
  lookup: section({ by: z.enum(['key', 'payload']).optional(), ...lookupTimeFields }).optional(),
  status: section({ everyMs: statusEveryField }).optional(),
  taskId: z.literal('none').optional(),
  rateLimit: section(waitFields).optional(),
  ...careFields,
})

function call<Name extends keyof Calls>() {
  return z.custom<NonNullable<Calls[Name]>>((value) => typeof value === 'function', 'expected a function')
}

export const NO_SCHEMA = 'expected a schema (zod 3.24 or later, or another Standard Schema)'

const codeTargetSchema = section({
  name: z.string(),
  version: z.string().min(1).max(64),
  payload: z.custom<PayloadSchema>(isPayloadSchema, NO_SCHEMA),
  invoke: call<'invoke'>(),
  lookup: call<'lookup'>().optional(),
  cancel: call<'cancel'>().optional(),
  status: call<'status'>().optional(),
  policy: policySchema.prefault({}),
  secrets: z.array(z.string().optional()).default([]),
}).superRefine(({ policy, lookup, status }, context) => {
  const message = (call: string) => `is there, and the target has no function \`${call}\``
  if (policy.lookup !== undefined && lookup === undefined)
    context.addIssue({ code: 'custom', path: ['policy', 'lookup'], message: message('lookup') })
  if (policy.status !== undefined && status === undefined)
    context.addIssue({ code: 'custom', path: ['policy', 'status'], message: message('status') })
  if (policy.lookup?.by === 'key' && !asksByKey(policy))
    context.addIssue({
      code: 'custom',
      path: ['policy', 'lookup', 'by'],
      message: 'is key, and the target has none; add idempotency',
    })
  if (policy.dedupe !== 'always' && lookup !== undefined && !asksByKey(policy))
    context.addIssue({
      code: 'custom',
      path: ['policy', 'dedupe'],
      message: `${policy.dedupe} needs a lookup by key: equal payloads would find each other`,
    })
})

/** What a lookup asks by: the key where there is one, unless it says otherwise. */
function asksByKey({ lookup, idempotency }: Pick<z.output<typeof policySchema>, 'lookup' | 'idempotency'>): boolean {
  return idempotency !== undefined && lookup?.by !== 'payload'
}

/** Shape only. `error` holds every issue, with paths below the target. */
export function readCodeTarget(
  options: unknown,
): { readonly definition: CodeTargetDefinition } | { readonly error: z.ZodError } {
  const parsed = codeTargetSchema.safeParse(options, { reportInput: true })
  if (!parsed.success) return { error: parsed.error }
  const { name, version, payload, policy, secrets, ...calls } = parsed.data
  const care = careOf(policy, calls.lookup !== undefined)
  return {
    definition: {
      name,
      version,
      care,
      policy: policyWith(care, {
        dependsOnKey: asksByKey(policy),
        canCancel: calls.cancel !== undefined,
        tracking:
          calls.status === undefined ? null : (policy.status ?? section({ everyMs: statusEveryField }).parse({})),
      }),
      givesTaskId: policy.taskId !== 'none',
      secrets: secrets.filter((secret) => secret !== undefined),
      payload,
      calls,
    },
  }
}

function careOf(policy: z.output<typeof policySchema>, canLookup: boolean): CareDefinition {
  const { timeoutMs, retry, deadlineMs, limits, dedupe, rateLimit, breaker, account = null } = policy
  const idempotency = policy.idempotency === undefined ? null : keyOf(policy.idempotency)
  const canReplay = idempotency !== null && idempotency.rememberedForMs !== null
  return {
    submit: { timeoutMs },
    idempotency,
    lookup: canLookup ? lookupTimesOf(policy.lookup ?? section(lookupTimeFields).parse({})) : null,
    recovery: ladderOf(policy.recovery, { canLookup, canReplay }),
    retry,
    deadlineMs,
    limits,
    dedupe,
    ...writtenOnly(policy),
    ...(rateLimit !== undefined && { rateLimit: waitOf(rateLimit) }),
    ...(breaker !== undefined && { breaker }),
    account,
  }
}

export function isPayloadSchema(value: unknown): value is PayloadSchema {
  const standard = (value as PayloadSchema | null | undefined)?.['~standard']
  return typeof standard?.validate === 'function'
}
