// From a target as people write it to a TargetDefinition. Its defaults are here and in care-schema.ts, and nowhere else;
// whether the whole can be kept safe is judged in safety.ts.
import { z } from 'zod'
import { OUTCOME_KINDS } from '../core/outcome.ts'
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
import {
  convert,
  duration,
  headerName,
  headers,
  limitSign,
  method,
  section,
  statuses,
  template,
  templateOf,
  templateValue,
  waitHeader,
  whole,
} from './schema-parts.ts'
import type {
  BodyDefinition,
  LookupDefinition,
  SideCallDefinition,
  StatusDefinition,
  SubmitDefinition,
  TargetDefinition,
} from './target-definition.ts'

const MIB = 1_048_576
const DEFAULT_METHODS = { submit: 'POST', lookup: 'GET', cancel: 'DELETE', status: 'GET' } as const

/** Zod skips a check of the whole where a part is faulty; here all faults are told at once. */
const EVEN_IF_FAULTY: { readonly when: (payload: z.core.ParsePayload) => boolean } = {
  when: ({ value }) => typeof value === 'object' && value !== null && !Array.isArray(value),
}

const bodyFields = {
  body: templateValue().optional(),
  form: z.record(z.string(), templateValue()).optional(),
  text: template().optional(),
}

const callFields = {
  method: method().optional(),
  url: template(),
  headers: headers().default({}),
  ...bodyFields,
  timeoutMs: timeoutField,
}

const submitSchema = section({
  ...callFields,
  connectMs: duration({ min: 1 }).default(10_000),
  headersMs: duration({ min: 1 }).optional(),
  bodyMs: duration({ min: 1 }).optional(),
  maxResponseBytes: whole(1, 1024 * MIB).default(MIB),
  connection: z.enum(['reuse', 'fresh']).optional(),
}).superRefine(checkOneBody, EVEN_IF_FAULTY)

const idempotencySchema = section({ header: headerName().optional(), ...keyFields })

const lookupSchema = section({
  ...callFields,
  taskId: template(),
  complete: convert((value) => (typeof value === 'boolean' ? value : templateOf(value))).default(false),
  found: template().optional(),
  absent: template().optional(),
  ...lookupTimeFields,
}).superRefine(checkOneBody, EVEN_IF_FAULTY)

const cancelSchema = section(callFields).superRefine(checkOneBody, EVEN_IF_FAULTY)

const statusSchema = section({
  ...callFields,
  state: template(),
  succeeded: z.array(template()).min(1),
  failed: z.array(template()).default([]),
  pending: z.array(template()).default([]),
  everyMs: statusEveryField,
}).superRefine(checkOneBody, EVEN_IF_FAULTY)

const targetSchema = section({
  submit: submitSchema,
  idempotency: idempotencySchema.optional(),
  taskId: template().optional(),
  success: statuses().default([200, 201, 202]),
  outcomes: z
    .array(section({ when: template(), is: z.enum(OUTCOME_KINDS), taskId: template().optional() }))
    .default([]),
  exists: section({ ours: template().optional() }).prefault({}),
  lookup: lookupSchema.optional(),
  rateLimit: section({
    statuses: statuses().default([429]),
    headers: z.array(waitHeader()).default(['Retry-After']),
    signs: z.array(limitSign()).min(1).optional(),
    ...waitFields,
  }).prefault({}),
  cancel: cancelSchema.optional(),
  status: statusSchema.optional(),
  ...careFields,
}).superRefine(checkTaskId, EVEN_IF_FAULTY)

type WrittenTarget = z.output<typeof targetSchema>
type WrittenCall = z.output<typeof cancelSchema>

/** Shape only. `error` holds every issue, with paths below the target. */
export function readTarget(
  name: string,
  raw: unknown,
): { readonly definition: TargetDefinition } | { readonly error: z.ZodError } {
  const parsed = targetSchema.safeParse(raw, { reportInput: true })
  return parsed.success ? { definition: definitionOf(name, parsed.data) } : { error: parsed.error }
}

function definitionOf(name: string, written: WrittenTarget): TargetDefinition {
  const { success, outcomes, retry, deadlineMs, limits, rateLimit, dedupe } = written
  const idempotency =
    written.idempotency === undefined
      ? null
      : { header: written.idempotency.header ?? null, ...keyOf(written.idempotency) }
  const lookup = written.lookup === undefined ? null : lookupOf(written.lookup)
  const canReplay = idempotency !== null && idempotency.rememberedForMs !== null
  return {
    name,
    submit: submitOf(written.submit, { isOpaque: lookup === null && !canReplay }),
    idempotency,
    taskId: written.taskId === 'none' ? null : (written.taskId ?? '{% $key %}'),
    success,
    outcomes: outcomes.map(({ when, is, taskId }) => ({ when, is, taskId: taskId ?? null })),
    existsOurs: written.exists.ours ?? null,
    lookup,
    recovery: ladderOf(written.recovery, { canLookup: lookup !== null, canReplay }),
    retry,
    deadlineMs,
    limits,
    rateLimit: rateLimitOf(rateLimit),
    cancel: written.cancel === undefined ? null : sideCallOf(written.cancel, DEFAULT_METHODS.cancel),
    status: written.status === undefined ? null : statusOf(written.status),
    dedupe,
    ...(written.breaker !== undefined && { breaker: written.breaker }),
    ...writtenOnly(written),
    account: written.account ?? null,
  }
}

function rateLimitOf({ statuses, headers, signs, ...wait }: WrittenTarget['rateLimit']): TargetDefinition['rateLimit'] {
  return { statuses, headers, ...(signs !== undefined && { signs }), ...waitOf(wait) }
}

/** A stale keep-alive socket makes doubt: where nothing can settle that cheaply, each submit dials. */
function submitOf(written: WrittenTarget['submit'], { isOpaque }: { readonly isOpaque: boolean }): SubmitDefinition {
  const httpMethod = written.method ?? DEFAULT_METHODS.submit
  const hasNoBody = httpMethod === 'GET' || httpMethod === 'HEAD'
  return {
    method: httpMethod,
    url: written.url,
    headers: written.headers,
    body: bodyOf(written) ?? (hasNoBody ? NO_BODY : { kind: 'json', template: '{% $payload %}' }),
    timeoutMs: written.timeoutMs,
    connectMs: written.connectMs,
    headersMs: written.headersMs ?? written.timeoutMs,
    bodyMs: written.bodyMs ?? written.timeoutMs,
    maxResponseBytes: written.maxResponseBytes,
    connection: written.connection ?? (isOpaque ? 'fresh' : 'reuse'),
  }
}

const NO_BODY: BodyDefinition = { kind: 'none', template: null }

function bodyOf({ body, form, text }: z.output<z.ZodObject<typeof bodyFields>>): BodyDefinition | null {
  if (form !== undefined) return { kind: 'form', template: form }
  if (text !== undefined) return { kind: 'text', template: text }
  if (body === undefined) return null
  return body === 'none' ? NO_BODY : { kind: 'json', template: body }
}

function sideCallOf(written: WrittenCall, defaultMethod: string): SideCallDefinition {
  const { url, headers, timeoutMs } = written
  return { method: written.method ?? defaultMethod, url, headers, body: bodyOf(written) ?? NO_BODY, timeoutMs }
}

function lookupOf(written: z.output<typeof lookupSchema>): LookupDefinition {
  const { taskId, complete, found, absent } = written
  return {
    ...sideCallOf(written, DEFAULT_METHODS.lookup),
    taskId,
    complete,
    found: found ?? null,
    absent: absent ?? null,
    ...lookupTimesOf(written),
  }
}

function statusOf(written: z.output<typeof statusSchema>): StatusDefinition {
  const { state, succeeded, failed, pending, everyMs } = written
  return { ...sideCallOf(written, DEFAULT_METHODS.status), state, succeeded, failed, pending, everyMs }
}

function checkTaskId(target: { taskId?: unknown; idempotency?: unknown }, context: z.RefinementCtx): void {
  const idempotency = target.idempotency as { clientId?: unknown } | undefined
  if (target.taskId !== undefined || idempotency?.clientId === true) return
  const message = 'is required: an expression as in {% $response.body.id %}, or none where the API gives no id'
  context.addIssue({ code: 'custom', path: ['taskId'], message })
}

function checkOneBody(call: { body?: unknown; form?: unknown; text?: unknown }, context: z.RefinementCtx): void {
  const given = (['body', 'form', 'text'] as const).filter((field) => call[field] !== undefined)
  const [, second] = given
  if (second === undefined) return
  const message = `stands beside ${given[0]}; give one of body, form, text`
  context.addIssue({ code: 'custom', path: [second], message })
}
