// Every template of a target with its place: what the checks, the policy and the environment all go through.
import { type CompiledTemplate, compileTemplate, compileTemplateValue, compileUrl } from './expression.ts'
import { SCOPE_NAMES } from './expression-names.ts'
import type {
  BodyDefinition,
  SideCallDefinition,
  TargetDefinition,
  Template,
  TemplateValue,
} from './target-definition.ts'

type CallName = 'submit' | 'lookup' | 'cancel' | 'status'

export interface TemplatePlace {
  /** Below the target, as written: `submit.headers.authorization`. */
  readonly path: string
  readonly call: CallName
  /** `answer`: it reads what the call was answered. */
  readonly part: 'url' | 'header' | 'body' | 'answer'
  /** Throws OnceishError CONFIG_INVALID. */
  compile(): CompiledTemplate
}

export function templatesOf(target: TargetDefinition): TemplatePlace[] {
  return [
    ...callTemplates('submit', target.submit),
    ...answerTemplates('submit', submitAnswers(target)),
    ...sideCallTemplates('lookup', target.lookup, ['taskId', 'complete', 'found', 'absent']),
    ...sideCallTemplates('cancel', target.cancel, []),
    ...sideCallTemplates('status', target.status, ['state']),
  ]
}

/** Which of our variables the templates read; one that does not compile might read any. */
export function variablesOf(places: readonly TemplatePlace[]): Set<string> {
  return new Set(places.flatMap((place) => [...(tryCompile(place)?.variables ?? SCOPE_NAMES)]))
}

export function tryCompile(place: TemplatePlace): CompiledTemplate | null {
  try {
    return place.compile()
  } catch {
    return null
  }
}

/** A lookup finds this very request, not its like: it asks by the key, or picks by it. */
export function lookupDependsOnKey(target: TargetDefinition): boolean {
  const places = templatesOf(target).filter(
    ({ call, part, path }) => call === 'lookup' && (part !== 'answer' || path === 'lookup.taskId'),
  )
  return variablesOf(places).has('key')
}

function sideCallTemplates<Call extends SideCallDefinition>(
  name: CallName,
  call: Call | null,
  answers: readonly (keyof Call & string)[],
): TemplatePlace[] {
  if (call === null) return []
  const written = answers.map((field): [string, unknown] => [`${name}.${field}`, call[field]])
  return [...callTemplates(name, call), ...answerTemplates(name, written)]
}

function callTemplates(call: CallName, { url, headers, body }: Omit<SideCallDefinition, 'timeoutMs'>): TemplatePlace[] {
  return [
    { path: `${call}.url`, call, part: 'url', compile: () => compileUrl(url) },
    ...Object.entries(headers).map(
      ([name, source]): TemplatePlace => ({
        path: `${call}.headers.${name}`,
        call,
        part: 'header',
        compile: () => compileTemplate(source),
      }),
    ),
    ...bodyTemplates(`${call}.${bodyField(body)}`, call, body.template),
  ]
}

function bodyField({ kind }: BodyDefinition): string {
  return kind === 'form' || kind === 'text' ? kind : 'body'
}

/** One place a leaf, so that each faulty one is named. */
function bodyTemplates(path: string, call: CallName, value: TemplateValue): TemplatePlace[] {
  const place = (compile: () => CompiledTemplate): TemplatePlace => ({ path, call, part: 'body', compile })
  if (typeof value === 'string') return [place(() => compileTemplate(value))]
  if (typeof value !== 'object' || value === null) return []
  if (isList(value)) return value.flatMap((item, i) => bodyTemplates(`${path}[${i}]`, call, item))
  // The names alone: an expression in one is refused.
  const names = place(() => compileTemplateValue(Object.fromEntries(Object.keys(value).map((name) => [name, null]))))
  return [names, ...Object.entries(value).flatMap(([name, item]) => bodyTemplates(`${path}.${name}`, call, item))]
}

function isList(value: TemplateValue): value is readonly TemplateValue[] {
  return Array.isArray(value)
}

function submitAnswers({ taskId, outcomes, existsOurs }: TargetDefinition): [string, Template | null][] {
  return [
    ['taskId', taskId],
    ...outcomes.flatMap((rule, i): [string, Template | null][] => [
      [`outcomes[${i}].when`, rule.when],
      [`outcomes[${i}].taskId`, rule.taskId],
    ]),
    ['exists.ours', existsOurs],
  ]
}

/** Null and boolean are settings that need no expression. */
function answerTemplates(call: CallName, written: readonly (readonly [string, unknown])[]): TemplatePlace[] {
  return written.flatMap(([path, source]): TemplatePlace[] =>
    typeof source === 'string' ? [{ path, call, part: 'answer', compile: () => compileTemplate(source) }] : [],
  )
}
