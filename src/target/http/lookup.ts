// From a lookup's verdict to what it proved. Pure. Only a healthy answer that says it shows everything can prove a miss;
// whatever is less is undetermined and is asked again.
import { type CompiledTemplate, compileTemplate } from '../../config/expression.ts'
import type { LookupDefinition } from '../../config/target-definition.ts'
import type { LookupResult } from '../../core/outcome.ts'
import { limitedWaitMs, retryAfterMs } from '../../core/retry-after.ts'
import type { Redactor } from '../redact.ts'
import { taskIdText } from '../task-id.ts'
import type { AnswerRules, CallFacts } from './classify.ts'
import { evidenceOf } from './evidence.ts'
import { type ReadAnswer, readAnswer } from './extract.ts'
import type { Answer, CallVerdict } from './submit.ts'

export interface LookupRules {
  readonly taskId: CompiledTemplate
  readonly complete: CompiledTemplate | boolean
  readonly found: CompiledTemplate | null
  readonly absent: CompiledTemplate | null
  readonly limits: Pick<AnswerRules, 'limitStatuses' | 'limitHeaders'>
  readonly readsPayload: boolean
}

type Finding =
  | { readonly kind: 'tasks'; readonly taskIds: readonly string[] }
  | { readonly kind: 'miss' }
  | { readonly kind: 'undetermined'; readonly why: string }

export function compileLookupRules(definition: LookupDefinition, limits: LookupRules['limits']): LookupRules {
  const taskId = compileTemplate(definition.taskId)
  const complete = typeof definition.complete === 'boolean' ? definition.complete : compileTemplate(definition.complete)
  const found = definition.found === null ? null : compileTemplate(definition.found)
  const absent = definition.absent === null ? null : compileTemplate(definition.absent)
  const templates = [taskId, found, absent, typeof complete === 'boolean' ? null : complete]
  const readsPayload = templates.some((template) => template?.variables.has('payload'))
  return { taskId, complete, found, absent, limits, readsPayload }
}

export function classifyLookup(verdict: CallVerdict, rules: LookupRules, facts: CallFacts, now: number): LookupResult {
  const finding = findingOf(verdict, rules, facts)
  const note = finding.kind === 'undetermined' ? finding.why : undefined
  const evidence = evidenceOf(verdict, facts.redactor, { rule: 'lookup', note })
  if (finding.kind === 'miss') return { kind: 'miss', evidence }
  if (finding.kind === 'undetermined') {
    const retryAfterMs = verdict.phase === 'answered' ? waitMs(verdict.answer, rules.limits, now) : null
    return { kind: 'undetermined', retryAfterMs, evidence }
  }
  const [taskId, ...others] = finding.taskIds
  if (taskId === undefined || others.length > 0) return { kind: 'ambiguous', taskIds: finding.taskIds, evidence }
  return { kind: 'found', taskId, evidence }
}

function findingOf(verdict: CallVerdict, rules: LookupRules, facts: CallFacts): Finding {
  if (verdict.phase !== 'answered') return undetermined('no whole answer')
  try {
    return read(readAnswer(verdict.answer), rules, facts)
  } catch (error) {
    return undetermined(`an expression fails: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function read(answer: ReadAnswer, rules: LookupRules, facts: CallFacts): Finding {
  const { response } = answer
  const scope = { ...facts.scope, response }
  const says = (condition: CompiledTemplate | boolean): boolean =>
    typeof condition === 'boolean' ? condition : condition.evaluate(scope) === true

  if (rules.absent !== null && says(rules.absent)) return { kind: 'miss' }
  const isListing = response.status >= 200 && response.status < 300
  const found = rules.found === null ? isListing : says(rules.found)
  if (!found && !isListing && response.status !== 404) return undetermined(`status ${response.status}`)
  if (isListing && !answer.readable) return undetermined('the body is not the JSON that its content-type says')
  if (found) {
    const taskIds = taskIdsOf(rules.taskId.evaluate(scope), facts.redactor)
    if (taskIds === null) return undetermined('lookup.taskId yields something that is no task id')
    if (taskIds.length > 0) return { kind: 'tasks', taskIds }
  }
  return says(rules.complete) ? { kind: 'miss' } : undetermined('not found, but the answer is not known to be complete')
}

/** Distinct ids in the answer's order; null where one of them cannot be read. */
function taskIdsOf(value: unknown, redactor: Redactor): string[] | null {
  const values = Array.isArray(value) ? value : value === undefined || value === null ? [] : [value]
  const texts = values.map((one) => taskIdText(one, redactor))
  return texts.includes(null) ? null : [...new Set(texts as string[])]
}

function waitMs(answer: Answer, limits: LookupRules['limits'], now: number): number | null {
  const isLimited = answer.status === 429 || limits.limitStatuses.has(answer.status)
  return isLimited ? limitedWaitMs(answer.headers, limits.limitHeaders, now) : retryAfterMs(answer.headers, now)
}

function undetermined(why: string): Finding {
  return { kind: 'undetermined', why }
}
