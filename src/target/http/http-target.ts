// A target that is described as data and called over HTTP. Puts the parts together and owns their connections;
// what an answer means is classify.ts's and lookup.ts's.
import type { Environment } from '../../config/environment.ts'
import { definitionVersion, policyOf } from '../../config/policy.ts'
import type { SideCallDefinition, SubmitDefinition, TargetDefinition } from '../../config/target-definition.ts'
import { type Clock, systemClock } from '../../core/clock.ts'
import { deriveKey } from '../../core/idempotency-key.ts'
import type { CancelResult, LookupResult, Outcome, TaskStatus } from '../../core/outcome.ts'
import type { PreparedCall } from '../../core/prepared-call.ts'
import type { HeaderMap } from '../../core/retry-after.ts'
import { createRedactor, type Redactor, secretsOfHeader } from '../redact.ts'
import type { AbortLike, InvokeOptions, LookupInput, PrepareInput, StatusInput, Target } from '../target.ts'
import type { Agents, ConnectHook } from './agents.ts'
import { type AnswerRules, type CallFacts, classify, compileRules } from './classify.ts'
import { evidenceOf, unsentEvidence } from './evidence.ts'
import { parseJson } from './extract.ts'
import { classifyLookup, compileLookupRules, type LookupRules } from './lookup.ts'
import {
  accountOf,
  type CompiledCall,
  compileCall,
  freezeCall,
  isRequestsFault,
  renderCall,
  renderSecretHeaders,
  scopeOf,
} from './render.ts'
import { classifyStatus, compileStatusRules, type StatusRules } from './status.ts'
import { type CallVerdict, type HttpCall, submit } from './submit.ts'

export interface HttpTargetOptions {
  readonly env: Environment
  readonly clock?: Clock
  readonly connectHook?: ConnectHook
  /** The store's own: a fingerprint of credentials must not be guessable from the file of another. */
  readonly accountSalt?: string
}

/** Throws OnceishError where the description does not compile; opens no connection before the first call. */
export function createHttpTarget(definition: TargetDefinition, options: HttpTargetOptions): Target {
  return new HttpTarget(definition, options)
}

type CallLimits = Pick<SubmitDefinition, 'timeoutMs' | 'headersMs' | 'bodyMs' | 'maxResponseBytes'>

interface UrlParts {
  readonly url: string
  readonly origin: string
  readonly path: string
}

interface SideCall {
  readonly call: CompiledCall
  readonly timeoutMs: number
}

class HttpTarget implements Target {
  readonly name: string
  readonly version: string
  readonly description: string
  readonly policy: Target['policy']
  readonly summary: string
  readonly #definition: TargetDefinition
  readonly #env: Environment
  readonly #clock: Clock
  readonly #openAgents: () => Promise<Agents>
  #agents: Promise<Agents> | null = null
  readonly #submit: CompiledCall
  readonly #lookup: SideCall | null
  readonly #cancel: SideCall | null
  readonly #status: SideCall | null
  readonly #rules: AnswerRules
  readonly #lookupRules: LookupRules | null
  readonly #statusRules: StatusRules | null
  /** Null where several origins are possible, which the loader refuses. */
  readonly #origin: string | null
  readonly #account: string | null
  readonly #envSecrets: readonly string[]
  #lastUrl: UrlParts | null = null
  #lastRedactor: { readonly id: string; readonly redactor: Redactor } | null = null

  constructor(definition: TargetDefinition, { env, clock, connectHook, accountSalt }: HttpTargetOptions) {
    const { name, submit: submitDefinition } = definition
    this.name = name
    this.version = definitionVersion(definition)
    this.description = JSON.stringify(definition)
    this.policy = policyOf(definition)
    this.summary = `${submitDefinition.method} ${submitDefinition.url}`
    this.#definition = definition
    this.#env = env
    this.#clock = clock ?? systemClock
    // Whoever never calls need not load what calls: most commands are over before it would have been.
    this.#openAgents = async () => (await import('./agents.ts')).openAgents({ ...submitDefinition, connectHook })
    this.#submit = compileCall(submitDefinition, `target "${name}": submit`)
    this.#lookup = compileSideCall(definition.lookup, `target "${name}": lookup`)
    this.#cancel = compileSideCall(definition.cancel, `target "${name}": cancel`)
    this.#status = compileSideCall(definition.status, `target "${name}": status`)
    this.#rules = compileRules(definition)
    this.#lookupRules = definition.lookup === null ? null : compileLookupRules(definition.lookup, this.#rules)
    this.#statusRules = definition.status === null ? null : compileStatusRules(definition.status)
    this.#origin = originOf(submitDefinition.url)
    this.#account = definition.account ?? accountOf(name, this.#submit, env, accountSalt ?? '')
    this.#envSecrets = secretsOf([this.#submit, this.#lookup?.call, this.#cancel?.call, this.#status?.call], env)
  }

  keyFor({ namespace, logicalHash, generation }: Parameters<Target['keyFor']>[0]): string | null {
    const { idempotency } = this.#definition
    if (idempotency === null) return null
    return deriveKey({ namespace, target: this.name, logicalHash, generation }, idempotency.format)
  }

  prepare(input: PrepareInput): PreparedCall {
    // No environment: what is frozen must not be able to hold a secret.
    const scope = scopeOf(this.#submit, input, { readsPayload: this.#submit.readsPayload, env: {}, taskId: null })
    const rendered = renderCall(this.#submit, scope, input.payload)
    return freezeCall(rendered, this.#keyHeader(input.key), this.#account)
  }

  async open(): Promise<void> {
    await this.#connected()
  }

  async invoke(prepared: PreparedCall, { input, gate, onWritten, signal }: InvokeOptions): Promise<Outcome> {
    let call: HttpCall
    let facts: CallFacts
    let agents: Agents
    try {
      agents = await this.#connected()
      const readsPayload = this.#submit.secretsReadPayload
      const scope = scopeOf(this.#submit, input, { readsPayload, env: this.#env, taskId: null })
      const secrets = renderSecretHeaders(this.#submit, scope)
      call = this.#httpCall(prepared, secrets, this.#definition.submit, { gate, onWritten, signal })
      facts = this.#factsOf(input, secrets, this.#rules.readsPayload, null)
    } catch (error) {
      // Without its credentials no call of this target can be made; one bad request must not stop the others.
      const kind = isRequestsFault(error) ? 'rejected' : 'blocked'
      return { kind, evidence: unsentEvidence('render', error, this.#redactorFor({})) }
    }
    const verdict = await submit(agents.submit, call)
    return classify(verdict, this.#rules, facts, this.#clock.wallNow())
  }

  async lookup(input: LookupInput, signal?: AbortLike): Promise<LookupResult> {
    if (this.#lookup === null || this.#lookupRules === null) {
      const evidence = unsentEvidence('lookup', 'the target describes no lookup', this.#redactorFor({}))
      return { kind: 'undetermined', retryAfterMs: null, evidence }
    }
    const made = await this.#sideCall(this.#lookup, input, signal)
    if ('error' in made) {
      const evidence = unsentEvidence('lookup', made.error, this.#redactorFor({}))
      return { kind: 'undetermined', retryAfterMs: null, evidence }
    }
    const facts = this.#factsOf(input, made.secrets, this.#lookupRules.readsPayload, input.taskId)
    return classifyLookup(made.verdict, this.#lookupRules, facts, this.#clock.wallNow())
  }

  async cancel(input: LookupInput & { taskId: string }, signal?: AbortLike): Promise<CancelResult> {
    if (this.#cancel === null) {
      const evidence = unsentEvidence('cancel', 'the target describes no cancel', this.#redactorFor({}))
      return { kind: 'failed', evidence }
    }
    const made = await this.#sideCall(this.#cancel, input, signal)
    if ('error' in made) {
      return { kind: 'failed', evidence: unsentEvidence('cancel', made.error, this.#redactorFor({})) }
    }
    const { verdict, secrets } = made
    const isDone = verdict.phase === 'answered' && verdict.answer.status >= 200 && verdict.answer.status < 300
    const evidence = evidenceOf(verdict, this.#redactorFor(secrets), { rule: 'cancel' })
    return { kind: isDone ? 'canceled' : 'failed', evidence }
  }

  async status(input: StatusInput, signal?: AbortLike): Promise<TaskStatus> {
    if (this.#status === null || this.#statusRules === null) {
      const evidence = unsentEvidence('status', 'the target describes no status', this.#redactorFor({}))
      return { kind: 'undetermined', retryAfterMs: null, evidence }
    }
    const withoutPayload = { ...input, payload: 'null' }
    const made = await this.#sideCall(this.#status, withoutPayload, signal)
    if ('error' in made) {
      const evidence = unsentEvidence('status', made.error, this.#redactorFor({}))
      return { kind: 'undetermined', retryAfterMs: null, evidence }
    }
    const facts = this.#factsOf(withoutPayload, made.secrets, false, input.taskId)
    return classifyStatus(made.verdict, this.#statusRules, facts, this.#clock.wallNow())
  }

  sameOrigin(prepared: PreparedCall): boolean {
    return originOf(prepared.url) === this.#origin && prepared.account === this.#account
  }

  async close(): Promise<void> {
    await (await this.#agents)?.close()
  }

  #connected(): Promise<Agents> {
    this.#agents ??= this.#openAgents()
    return this.#agents
  }

  #keyHeader(key: string | null): { name: string; value: string } | null {
    const { idempotency } = this.#definition
    if (key === null || !idempotency?.header) return null
    const value = idempotency.format.kind === 'sf-string' ? `"${key}"` : key
    return { name: idempotency.header.toLowerCase(), value }
  }

  async #sideCall(
    { call, timeoutMs }: SideCall,
    input: PrepareInput & { readonly taskId: string | null },
    signal: AbortLike | undefined,
  ): Promise<{ readonly verdict: CallVerdict; readonly secrets: HeaderMap } | { readonly error: unknown }> {
    try {
      const readsPayload = call.readsPayload || call.secretsReadPayload
      const scope = scopeOf(call, input, { readsPayload, env: this.#env, taskId: input.taskId })
      const secrets = renderSecretHeaders(call, scope)
      const rendered = renderCall(call, scope, input.payload)
      const limits = { ...this.#definition.submit, timeoutMs, headersMs: timeoutMs, bodyMs: timeoutMs }
      const { lookup } = await this.#connected()
      const verdict = await submit(lookup, this.#httpCall(rendered, secrets, limits, { signal }))
      return { verdict, secrets }
    } catch (error) {
      return { error }
    }
  }

  #httpCall(
    { method, url, headers, body }: Pick<PreparedCall, 'method' | 'url' | 'headers' | 'body'>,
    secrets: HeaderMap,
    { timeoutMs, headersMs, bodyMs, maxResponseBytes }: CallLimits,
    { gate, onWritten, signal }: Pick<HttpCall, 'gate' | 'onWritten' | 'signal'>,
  ): HttpCall {
    const { origin, path } = this.#partsOf(url)
    return {
      origin,
      path,
      method,
      headers: { ...headers, ...secrets },
      body,
      timeoutMs,
      headersMs,
      bodyMs,
      maxResponseBytes,
      clock: this.#clock,
      gate,
      onWritten,
      signal,
    }
  }

  #factsOf(input: PrepareInput, secrets: HeaderMap, readsPayload: boolean, taskId: string | null): CallFacts {
    const { key, request } = input
    const payload = readsPayload ? { payload: parseJson(input.payload) } : {}
    return { scope: { ...payload, key, request, taskId }, key, redactor: this.#redactorFor(secrets) }
  }

  /** Many targets have one URL, so the last one is kept. */
  #partsOf(url: string): UrlParts {
    if (this.#lastUrl?.url === url) return this.#lastUrl
    const { origin, pathname, search } = new URL(url)
    this.#lastUrl = { url, origin, path: pathname + search }
    return this.#lastUrl
  }

  /** Nearly all calls have the same secrets, so the last redactor is kept. */
  #redactorFor(secretHeaders: HeaderMap): Redactor {
    const values = Object.values(secretHeaders)
    // No header has a line break in it.
    const id = values.join('\n')
    if (this.#lastRedactor?.id !== id) {
      const redactor = createRedactor([...this.#envSecrets, ...values.flatMap(secretsOfHeader)])
      this.#lastRedactor = { id, redactor }
    }
    return this.#lastRedactor.redactor
  }
}

function compileSideCall(definition: SideCallDefinition | null, label: string): SideCall | null {
  return definition === null ? null : { call: compileCall(definition, label), timeoutMs: definition.timeoutMs }
}

function secretsOf(calls: readonly (CompiledCall | undefined)[], env: Environment): string[] {
  const names = new Set(calls.flatMap((call) => (call === undefined ? [] : [...call.envNames])))
  return [...names].flatMap((name) => env[name] ?? [])
}

/** Of a URL or of the constant beginning of a template. */
function originOf(url: string): string | null {
  const constant = url.split('{%')[0] ?? ''
  return URL.canParse(constant) ? new URL(constant).origin : null
}
