// From a status call's verdict to the state of the task. Pure. A state that the description does not name is still open.
import { type CompiledTemplate, compileTemplate } from '../../config/expression.ts'
import type { StatusDefinition } from '../../config/target-definition.ts'
import type { TaskStatus } from '../../core/outcome.ts'
import { retryAfterMs } from '../../core/retry-after.ts'
import type { CallFacts } from './classify.ts'
import { evidenceOf } from './evidence.ts'
import { readAnswer } from './extract.ts'
import type { CallVerdict } from './submit.ts'

export interface StatusRules {
  readonly state: CompiledTemplate
  readonly meanings: ReadonlyMap<string, 'pending' | 'succeeded' | 'failed'>
}

export function compileStatusRules(definition: StatusDefinition): StatusRules {
  const { pending, succeeded, failed } = definition
  const named = Object.entries({ pending, succeeded, failed }) as ['pending' | 'succeeded' | 'failed', string[]][]
  return {
    state: compileTemplate(definition.state),
    meanings: new Map(named.flatMap(([meaning, states]) => states.map((state) => [state, meaning] as const))),
  }
}

export function classifyStatus(verdict: CallVerdict, rules: StatusRules, facts: CallFacts, now: number): TaskStatus {
  const state = verdict.phase === 'answered' ? stateOf(verdict, rules, facts) : null
  const note = state === null ? undefined : `state: ${state}`
  const evidence = evidenceOf(verdict, facts.redactor, { rule: 'status', note })
  if (verdict.phase !== 'answered') return { kind: 'undetermined', retryAfterMs: null, evidence }
  const { status, headers } = verdict.answer
  if (status === 404 || status === 410) return { kind: 'gone', evidence }
  if (status < 200 || status >= 300) return { kind: 'undetermined', retryAfterMs: retryAfterMs(headers, now), evidence }
  const meaning = state === null ? undefined : rules.meanings.get(state)
  return meaning === undefined ? { kind: 'unlisted', evidence } : { kind: meaning, evidence }
}

function stateOf(verdict: CallVerdict & { phase: 'answered' }, rules: StatusRules, facts: CallFacts): string | null {
  try {
    const value = rules.state.evaluate({ ...facts.scope, response: readAnswer(verdict.answer).response })
    return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : null
  } catch {
    return null // an answer of another shape names no state
  }
}
