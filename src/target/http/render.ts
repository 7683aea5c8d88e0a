// From a description and a payload to the bytes of a call. What is rendered here is frozen with the first attempt, so
// nothing of it may hold a secret: headers that read $env are rendered apart, anew at each call, and never stored.
import { createHmac } from 'node:crypto'
import type { Environment } from '../../config/environment.ts'
import {
  type CompiledTemplate,
  type CompiledUrl,
  compileTemplate,
  compileTemplateValue,
  compileUrl,
  type ExpressionScope,
} from '../../config/expression.ts'
import type { BodyDefinition, SideCallDefinition } from '../../config/target-definition.ts'
import { isOnceishError, OnceishError } from '../../core/errors.ts'
import type { PreparedCall } from '../../core/prepared-call.ts'
import type { HeaderMap } from '../../core/retry-after.ts'
import type { PrepareInput } from '../target.ts'
import { parseJson } from './extract.ts'

export interface CompiledCall {
  /** For messages: `target "transcribe": submit`. */
  readonly label: string
  readonly method: string
  readonly url: CompiledUrl
  /** As it is sent, where no part of it is an expression. */
  readonly fixedUrl: string | null
  /** By lower-case name. */
  readonly headers: ReadonlyMap<string, CompiledTemplate>
  readonly secretHeaders: ReadonlyMap<string, CompiledTemplate>
  readonly body: CompiledBody
  /** Whether anything frozen reads the parsed payload, and whether a secret header does. */
  readonly readsPayload: boolean
  readonly secretsReadPayload: boolean
  readonly envNames: ReadonlySet<string>
}

interface CompiledBody {
  readonly kind: BodyDefinition['kind']
  /** Null: no body, or the enqueued text itself. */
  readonly template: CompiledTemplate | null
}

/** Nobody else's yet. */
interface RenderedCall {
  readonly method: string
  readonly url: string
  readonly headers: Record<string, string>
  readonly body: string | null
}

const WHOLE_PAYLOAD = /^\s*\{%\s*\$payload\s*%\}\s*$/
const CONTENT_TYPES = {
  json: 'application/json',
  form: 'application/x-www-form-urlencoded',
  text: 'text/plain; charset=utf-8',
  none: null,
} as const satisfies Record<BodyDefinition['kind'], string | null>
/** What a header can carry: no line break (it would begin another header), nothing beyond Latin-1. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

export function compileCall(definition: Omit<SideCallDefinition, 'timeoutMs'>, label: string): CompiledCall {
  const url = compileUrl(definition.url)
  const headers = Object.entries(definition.headers).map(
    ([name, source]) => [name.toLowerCase(), compileTemplate(source)] as const,
  )
  const body = compileBody(definition.body)
  const secretHeaders = headers.filter(([, template]) => template.envNames.size > 0)
  const frozenHeaders = headers.filter(([, template]) => template.envNames.size === 0)
  const secrets = secretHeaders.map(([, template]) => template)
  const frozen = [
    url,
    ...frozenHeaders.map(([, template]) => template),
    ...(body.template === null ? [] : [body.template]),
  ]
  return {
    label,
    method: definition.method.toUpperCase(),
    url,
    fixedUrl: url.isConstant ? new URL(url.evaluate({})).href : null,
    headers: new Map(frozenHeaders),
    secretHeaders: new Map(secretHeaders),
    body,
    readsPayload: frozen.some((template) => template.variables.has('payload')),
    secretsReadPayload: secrets.some((template) => template.variables.has('payload')),
    envNames: new Set([...frozen, ...secrets].flatMap((template) => [...template.envNames])),
  }
}

/** What expressions see before a call. Throws RENDER_FAILED where the payload is to be read and cannot be. */
export function scopeOf(
  call: CompiledCall,
  { payload, key, request }: PrepareInput,
  facts: { readonly readsPayload: boolean; readonly env: Environment; readonly taskId: string | null },
): ExpressionScope {
  const parsed = facts.readsPayload ? { payload: attempt(call, 'the payload', () => parseJson(payload)) } : {}
  return { ...parsed, key, request, taskId: facts.taskId, env: facts.env }
}

/** Everything but the secret headers. Throws RENDER_FAILED naming the part that does not fit. */
export function renderCall(call: CompiledCall, scope: ExpressionScope, payload: string): RenderedCall {
  return {
    method: call.method,
    url: call.fixedUrl ?? attempt(call, 'the URL', () => new URL(call.url.evaluate(scope)).href),
    headers: renderHeaders(call, scope),
    body: renderBody(call, scope, payload),
  }
}

/** The headers that read $env. Throws RENDER_FAILED, without a secret in its message. */
export function renderSecretHeaders(call: CompiledCall, scope: ExpressionScope): HeaderMap {
  const rendered: Record<string, string> = {}
  for (const [name, template] of call.secretHeaders) {
    const unset = [...template.envNames].filter((variable) => !scope.env?.[variable])
    if (unset.length > 0) throw failed(call, `header "${name}"`, `${unset.join(', ')} is not set in the environment`)
    rendered[name] = secretHeaderText(call, name, template, scope)
  }
  return rendered
}

/** Whether it was the request that did not fit, not the target or its credentials. */
export function isRequestsFault(error: unknown): boolean {
  return isOnceishError(error) && error.details['ofRequest'] === true
}

/** The call as it is frozen. `keyHeader`: the header that carries the key by itself. */
export function freezeCall(
  rendered: RenderedCall,
  keyHeader: { readonly name: string; readonly value: string } | null,
  account: string | null,
): PreparedCall {
  const { method, url, headers, body } = rendered
  if (keyHeader !== null) headers[keyHeader.name] = keyHeader.value
  return { method, url, headers, body, account }
}

/**
 * Tells accounts apart without keeping anything of their credentials; null where none are known. Over the variables that
 * the secret headers read, not over the headers: these may differ from request to request.
 */
export function accountOf(target: string, call: CompiledCall, env: Environment, salt: string): string | null {
  const names = new Set([...call.secretHeaders.values()].flatMap((template) => [...template.envNames]))
  const credentials = [...names].sort().map((name) => [name, env[name] ?? null])
  if (credentials.every(([, value]) => value === null)) return null
  const mac = createHmac('sha256', `onceish-account-v1\0${salt}\0${target}`).update(JSON.stringify(credentials))
  return mac.digest('hex').slice(0, 16)
}

function compileBody({ kind, template }: BodyDefinition): CompiledBody {
  const isWholePayload = kind === 'json' && typeof template === 'string' && WHOLE_PAYLOAD.test(template)
  return { kind, template: kind === 'none' || isWholePayload ? null : compileTemplateValue(template) }
}

function renderHeaders(call: CompiledCall, scope: ExpressionScope): Record<string, string> {
  const rendered: Record<string, string> = {}
  const contentType = CONTENT_TYPES[call.body.kind]
  if (contentType !== null) rendered['content-type'] = contentType
  for (const [name, template] of call.headers) {
    const value = headerText(
      call,
      name,
      attempt(call, `header "${name}"`, () => template.evaluate(scope)),
    )
    if (value !== null) rendered[name] = value
  }
  return rendered
}

function renderBody(call: CompiledCall, scope: ExpressionScope, payload: string): string | null {
  const { kind, template } = call.body
  if (kind === 'none') return null
  if (template === null) return payload
  const value = attempt(call, 'the body', () => template.evaluate(scope))
  if (kind === 'form') return formText(call, value)
  if (kind === 'text') return scalarText(value) ?? refuse(call, 'the body', `it yields ${kindOf(value)}, not text`)
  return JSON.stringify(value) ?? refuse(call, 'the body', `it yields ${kindOf(value)}`)
}

function formText(call: CompiledCall, value: unknown): string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw failed(call, 'the form body', `it yields ${kindOf(value)}, not an object`)
  }
  const fields = new URLSearchParams()
  for (const [name, field] of Object.entries(value)) {
    for (const item of Array.isArray(field) ? field : [field]) {
      if (item === null || item === undefined) continue
      fields.append(name, scalarText(item) ?? refuse(call, `form field "${name}"`, `it yields ${kindOf(item)}`))
    }
  }
  return fields.toString()
}

/** Null: the header is left out. */
function headerText(call: CompiledCall, name: string, value: unknown): string | null {
  if (value === undefined || value === null) return null
  const text = scalarText(value) ?? refuse(call, `header "${name}"`, `it yields ${kindOf(value)}, not text`)
  if (!HEADER_VALUE.test(text)) {
    throw failed(call, `header "${name}"`, 'its value has a line break, a control character or one beyond Latin-1')
  }
  return text
}

function scalarText(value: unknown): string | null {
  if (typeof value === 'string') return value
  return typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value)) ? String(value) : null
}

function kindOf(value: unknown): string {
  if (value === undefined || value === null) return 'nothing'
  return Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`
}

function attempt<T>(call: CompiledCall, part: string, evaluate: () => T): T {
  try {
    return evaluate()
  } catch (cause) {
    throw failed(call, part, cause instanceof Error ? cause.message : String(cause))
  }
}

function secretHeaderText(
  call: CompiledCall,
  name: string,
  template: CompiledTemplate,
  scope: ExpressionScope,
): string {
  try {
    const value = headerText(call, name, template.evaluate(scope))
    if (value !== null) return value
  } catch {
    // The expression's own message can quote what it read.
  }
  const ofRequest = [...template.variables].some((variable) => variable !== 'env')
  throw failed(call, `header "${name}"`, 'its expression yields nothing that a header can carry', { ofRequest })
}

function refuse(call: CompiledCall, part: string, why: string): never {
  throw failed(call, part, why)
}

function failed(call: CompiledCall, part: string, why: string, details: Record<string, unknown> = {}): OnceishError {
  const message = `${call.label}: ${part} cannot be rendered: ${why}; fix the payload or the target`
  return new OnceishError('RENDER_FAILED', message, { details: { part, ...details } })
}
