// From a verdict to an outcome: what one call proved. Pure. When in doubt it says so: only a status that surely means
// "no effect", or the target's own rules, may lead to another call.
import { type CompiledTemplate, compileTemplate, type ExpressionScope } from '../../config/expression.ts'
import type { TargetDefinition } from '../../config/target-definition.ts'
import type { Outcome, OutcomeKind } from '../../core/outcome.ts'
import { limitedWait, retryAfterMs, type ToldWait } from '../../core/retry-after.ts'
import type { Redactor } from '../redact.ts'
import { shortText } from '../stored-text.ts'
import { taskIdText } from '../task-id.ts'
import { evidenceOf } from './evidence.ts'
import { type ResponseFacts, readAnswer } from './extract.ts'
import type { Answer, CallVerdict } from './submit.ts'

/** The same request will never do. */
const REJECTED = new Set([400, 404, 405, 406, 410, 411, 413, 414, 415, 422, 431, 451])
/** Credentials, or a proxy's: no request of this target will do until a person acts. */
const BLOCKED = new Set([401, 403, 407])
/** Refused before it was worked on. */
const NOT_EXECUTED = new Set([421, 425, 429])

export interface AnswerRules {
  readonly success: ReadonlySet<number>
  readonly outcomes: readonly CompiledRule[]
  /** Null: `taskId: none`. */
  readonly taskId: CompiledTemplate | null
  readonly existsOurs: CompiledTemplate | null
  readonly hasKey: boolean
  /** A key that the API only stores, to be looked up by, makes no repeat safe. */
  readonly clientId: boolean
  readonly limitStatuses: ReadonlySet<number>
  readonly limitHeaders: readonly string[]
  /** Null: a status that refuses credentials is a limit where a wait is told. */
  readonly limitSigns: readonly LimitSign[] | null
  readonly readsPayload: boolean
}

/** A header, lower-case, and the value that it must have; null: any. */
interface LimitSign {
  readonly name: string
  readonly value: string | null
}

interface CompiledRule {
  readonly name: string
  readonly when: CompiledTemplate
  readonly is: OutcomeKind
  readonly taskId: CompiledTemplate | null
}

/** What the call was, for expressions and evidence. */
export interface CallFacts {
  /** `$payload` is given where the rules read it. */
  readonly scope: ExpressionScope
  readonly key: string | null
  readonly redactor: Redactor
}

export function compileRules(definition: TargetDefinition): AnswerRules {
  const outcomes = definition.outcomes.map((rule, index) => ({
    name: `outcomes[${index}]`,
    when: compileTemplate(rule.when),
    is: rule.is,
    taskId: compileOptional(rule.taskId),
  }))
  const taskId = compileOptional(definition.taskId)
  const existsOurs = compileOptional(definition.existsOurs)
  const templates = [taskId, existsOurs, ...outcomes.flatMap((rule) => [rule.when, rule.taskId])]
  return {
    success: new Set(definition.success),
    outcomes,
    taskId,
    existsOurs,
    hasKey: definition.idempotency !== null,
    clientId: definition.idempotency?.clientId ?? false,
    limitStatuses: new Set(definition.rateLimit.statuses),
    limitHeaders: definition.rateLimit.headers,
    limitSigns: definition.rateLimit.signs?.map(limitSignOf) ?? null,
    readsPayload: templates.some((template) => template?.variables.has('payload')),
  }
}

function limitSignOf(sign: string): LimitSign {
  const [, name = '', value] = /^([^:\s]+)(?::\s*(.*))?$/.exec(sign) ?? []
  return { name: name.toLowerCase(), value: value ?? null }
}

/** @param now wall clock, for waits that are told as an instant. */
export function classify(verdict: CallVerdict, rules: AnswerRules, facts: CallFacts, now: number): Outcome {
  switch (verdict.phase) {
    case 'not_sent':
      return classifyUnsent(verdict, facts)
    case 'unanswered':
      return unknown(false, null, evidenceOf(verdict, facts.redactor, { rule: 'transport' }))
    case 'cut':
      return unknown(
        isExecuted(verdict.answer.status, rules),
        retryAfterMs(verdict.answer.headers, now),
        evidenceOf(verdict, facts.redactor, { rule: 'transport' }),
      )
    case 'answered':
      return classifyAnswer(new AnswerReading(verdict, rules, facts, now))
  }
}

function classifyUnsent(verdict: CallVerdict & { phase: 'not_sent' }, { redactor }: CallFacts): Outcome {
  if (verdict.gate !== null) {
    return notStarted(evidenceOf(verdict, redactor, { rule: 'gate', note: verdict.gate }))
  }
  const evidence = evidenceOf(verdict, redactor, { rule: 'transport' })
  return verdict.permanent ? { kind: 'rejected', evidence } : notStarted(evidence)
}

function classifyAnswer(reading: AnswerReading): Outcome {
  const rule = reading.rules.outcomes.find((candidate) => reading.holds(candidate.when, `${candidate.name}.when`))
  return rule === undefined ? byStatus(reading) : byRule(rule, reading)
}

function byRule(rule: CompiledRule, reading: AnswerReading): Outcome {
  const { rules, status } = reading
  switch (rule.is) {
    case 'accepted':
      return accepted(reading, rule.taskId ?? rules.taskId, rule.name)
    case 'exists':
      return exists(reading, rule.taskId ?? reading.rules.taskId, rule.name)
    case 'in_flight':
      return { kind: 'in_flight', retryAfterMs: reading.waitMs, evidence: reading.evidence(rule.name) }
    case 'not_executed':
      return notExecuted(reading, rules.limitStatuses.has(status), rule.name)
    case 'unknown':
      return unknown(false, reading.waitMs, reading.evidence(rule.name))
    case 'accepted_without_id':
    case 'rejected':
    case 'mismatch':
    case 'blocked':
      return { kind: rule.is, evidence: reading.evidence(rule.name) }
  }
}

function byStatus(reading: AnswerReading): Outcome {
  const { rules, status } = reading
  if (reading.isLimit) return notExecuted(reading, true, 'rateLimit')
  if (rules.success.has(status)) return accepted(reading, rules.taskId, 'success')
  if (status === 409 && saysOurs(reading)) return exists(reading, rules.taskId, 'default')
  if (REJECTED.has(status)) return { kind: 'rejected', evidence: reading.evidence('default') }
  if (BLOCKED.has(status)) return { kind: 'blocked', evidence: reading.evidence('default') }
  if (NOT_EXECUTED.has(status)) return notExecuted(reading, status === 429, 'default')
  // Also a 503 that tells to wait: a gateway may say so after the API acted. As doubt it is asked again inside the key's window.
  const note = status >= 300 && status < 400 ? 'redirects are not followed' : undefined
  return unknown(isExecuted(status, rules), reading.waitMs, reading.evidence('default', note))
}

function accepted(reading: AnswerReading, template: CompiledTemplate | null, rule: string): Outcome {
  if (template === null) return { kind: 'accepted', taskId: null, evidence: reading.evidence(rule) }
  const taskId = reading.taskId(template)
  const evidence = reading.evidence(rule)
  return taskId === null ? { kind: 'accepted_without_id', evidence } : { kind: 'accepted', taskId, evidence }
}

/** With a client-chosen id, a conflict that passes the target's own check is the thing that we made. */
function saysOurs(reading: AnswerReading): boolean {
  const { clientId, existsOurs } = reading.rules
  return clientId && existsOurs !== null && reading.holds(existsOurs, 'exists.ours')
}

function exists(reading: AnswerReading, template: CompiledTemplate | null, rule: string): Outcome {
  const { rules, facts } = reading
  const taskId = (template === null ? null : reading.taskId(template)) ?? (rules.clientId ? facts.key : null)
  // Where nothing is compared, a key of ours is too long to be met by chance.
  const ours = rules.existsOurs === null ? rules.hasKey : reading.holds(rules.existsOurs, 'exists.ours', taskId)
  const evidence = reading.evidence(rule)
  // The target gives no ids, so none is missing.
  if (ours && template === null && taskId === null) return { kind: 'accepted', taskId: null, evidence }
  return { kind: 'exists', ours, taskId, evidence }
}

function notStarted(evidence: Outcome['evidence']): Outcome {
  return { kind: 'not_executed', refund: true, written: false, retryAfterMs: null, evidence }
}

function notExecuted(reading: AnswerReading, refund: boolean, rule: string): Outcome {
  const told = refund ? reading.toldWait : null
  return {
    kind: 'not_executed',
    refund,
    written: true,
    retryAfterMs: reading.waitMs,
    ...(told !== null && { limitedBy: told.by }),
    evidence: reading.evidence(rule),
  }
}

function unknown(executed: boolean, waitMs: number | null, evidence: Outcome['evidence']): Outcome {
  return { kind: 'unknown', executed, retryAfterMs: waitMs, evidence }
}

/** The status shows that it happened, whatever else is missing. */
function isExecuted(status: number, rules: AnswerRules): boolean {
  return rules.success.has(status) || (status >= 200 && status < 300)
}

/** One whole answer under the rules of its target. An expression that fails on it is noted and says nothing. */
class AnswerReading {
  readonly rules: AnswerRules
  readonly facts: CallFacts
  readonly #verdict: CallVerdict & { phase: 'answered' }
  readonly #response: ResponseFacts
  readonly #now: number
  readonly #notes: string[] = []

  constructor(verdict: CallVerdict & { phase: 'answered' }, rules: AnswerRules, facts: CallFacts, now: number) {
    this.#verdict = verdict
    this.rules = rules
    this.facts = facts
    this.#now = now
    const { response, readable } = readAnswer(verdict.answer)
    this.#response = response
    if (!readable) this.#notes.push('the body is not the JSON that its content-type says')
  }

  get status(): number {
    return this.#answer.status
  }

  get retryAfterMs(): number | null {
    return retryAfterMs(this.#answer.headers, this.#now)
  }

  /** Where the status may also refuse credentials, a header must tell which it is: those wait for a person, not for a time. */
  get isLimit(): boolean {
    const { limitStatuses, limitSigns } = this.rules
    if (!limitStatuses.has(this.status)) return false
    if (!BLOCKED.has(this.status)) return true
    if (limitSigns === null) return this.toldWait !== null
    const { headers } = this.#answer
    return limitSigns.some(
      ({ name, value }) => name in headers && (value ?? headers[name]?.trim()) === headers[name]?.trim(),
    )
  }

  /** Of a limited answer also what other headers tell. */
  get waitMs(): number | null {
    return this.toldWait?.ms ?? this.retryAfterMs
  }

  /** Of a status that is a limit, what the answer tells to wait, and by which header. */
  get toldWait(): ToldWait | null {
    const { limitStatuses, limitHeaders } = this.rules
    if (this.status !== 429 && !limitStatuses.has(this.status)) return null
    const told = limitedWait(this.#answer.headers, limitHeaders, this.#now)
    return told && { ...told, by: shortText(told.by, this.facts.redactor) }
  }

  /** Exactly true; anything else is no. */
  holds(condition: CompiledTemplate, name: string, taskId: string | null = null): boolean {
    try {
      const value = condition.evaluate({ ...this.facts.scope, taskId, response: this.#response })
      if (value !== undefined && typeof value !== 'boolean') {
        this.#notes.push(`${name} yields neither true nor false`)
      }
      return value === true
    } catch (error) {
      this.#notes.push(`${name} fails: ${error instanceof Error ? error.message : String(error)}`)
      return false
    }
  }

  taskId(template: CompiledTemplate): string | null {
    try {
      const value = template.evaluate({ ...this.facts.scope, response: this.#response })
      const text = taskIdText(value, this.facts.redactor)
      if (text === null && value !== undefined) this.#notes.push('taskId yields no text or whole number')
      return text
    } catch (error) {
      this.#notes.push(`taskId fails: ${error instanceof Error ? error.message : String(error)}`)
      return null
    }
  }

  evidence(rule: string, note?: string): Outcome['evidence'] {
    const notes = note === undefined ? this.#notes : [note, ...this.#notes]
    return evidenceOf(this.#verdict, this.facts.redactor, {
      rule,
      note: notes.length === 0 ? undefined : notes.join('; '),
    })
  }

  get #answer(): Answer {
    return this.#verdict.answer
  }
}

function compileOptional(source: string | null): CompiledTemplate | null {
  return source === null ? null : compileTemplate(source)
}
