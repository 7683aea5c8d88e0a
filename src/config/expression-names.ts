// What an expression may name, told from its syntax tree before it ever runs: which of our variables it reads, which
// environment variables, and that every other name is one that JSONata knows. A mistyped name would otherwise read as
// "nothing" at the worst moment.
import { didYouMean } from '../core/suggest.ts'

export const SCOPE_NAMES = ['payload', 'key', 'request', 'taskId', 'response', 'env'] as const

/** JSONata's own functions but `$eval`, whose text no check could read. */
const FUNCTION_NAMES = (
  'sum count max min average string substring substringBefore substringAfter lowercase uppercase length trim pad ' +
  'match contains replace split join formatNumber formatBase formatInteger parseInteger number floor ceil round abs ' +
  'sqrt power random boolean not map zip filter single reduce sift keys lookup append exists spread merge reverse ' +
  'each error assert type sort shuffle distinct base64encode base64decode encodeUrlComponent encodeUrl ' +
  'decodeUrlComponent decodeUrl toMillis fromMillis clone now millis'
).split(' ')

export interface SyntaxNode {
  readonly type?: string
  readonly value?: unknown
  readonly steps?: readonly SyntaxNode[]
  readonly arguments?: readonly SyntaxNode[]
  readonly lhs?: unknown
  readonly focus?: string
  readonly index?: string
  readonly [name: string]: unknown
}

export interface ExpressionNames {
  readonly variables: ReadonlySet<string>
  readonly envNames: ReadonlySet<string>
  /** Why the expression is refused; empty: it is not. */
  readonly faults: readonly string[]
}

interface Walk {
  readonly bound: ReadonlySet<string>
  readonly variables: Set<string>
  readonly envNames: Set<string>
  readonly faults: Set<string>
}

/** Parts of a node that are evaluated with the node's own result as context. */
const INNER_PARTS = new Set(['predicate', 'stages', 'group', 'pattern', 'update', 'delete'])
/** Bookkeeping of JSONata's parser: no expressions. */
const NO_EXPRESSIONS = new Set(['ancestor', 'slot', 'seekingParent'])

export function namesOf(tree: SyntaxNode): ExpressionNames {
  const bound = new Set<string>()
  collectBound(tree, bound)
  const walk: Walk = { bound, variables: new Set(), envNames: new Set(), faults: new Set() }
  for (const name of bound) checkBound(name, walk)
  visit(tree, false, walk)
  return { variables: walk.variables, envNames: walk.envNames, faults: [...walk.faults] }
}

function collectBound(node: unknown, bound: Set<string>): void {
  if (Array.isArray(node)) {
    for (const item of node) collectBound(item, bound)
    return
  }
  if (!isNode(node)) return
  if (node.type === 'bind' && isNode(node.lhs)) bound.add(String(node.lhs.value))
  if (node.type === 'lambda') for (const argument of node.arguments ?? []) bound.add(String(argument.value))
  if (typeof node.focus === 'string') bound.add(node.focus)
  if (typeof node.index === 'string') bound.add(node.index)
  for (const [name, part] of Object.entries(node)) if (!NO_EXPRESSIONS.has(name)) collectBound(part, bound)
}

/** Names with two underscores reach into the evaluator, past its bounds. */
function checkBound(name: string, walk: Walk): void {
  if ((SCOPE_NAMES as readonly string[]).includes(name) || name.startsWith('__')) {
    walk.faults.add(`$${name} cannot be given another value; use another name`)
  }
}

/** @param hasContext whether a bare name has something to be a field of: the expression as a whole has no input. */
function visit(node: unknown, hasContext: boolean, walk: Walk): void {
  if (Array.isArray(node)) {
    for (const item of node) visit(item, hasContext, walk)
    return
  }
  if (!isNode(node)) return
  if (node.type === 'path') {
    visitPath(node, hasContext, walk)
  } else {
    checkNode(node, hasContext, walk)
    visitParts(node, hasContext, walk)
  }
}

function visitPath(path: SyntaxNode, hasContext: boolean, walk: Walk): void {
  const steps = path.steps ?? []
  const isEnv = visitEnv(steps, walk)
  for (const [i, step] of steps.entries()) {
    if (isEnv && i === 0) continue
    visit(step, hasContext || i > 0, walk)
  }
  visit(path.group, true, walk)
}

/** `$env.NAME` and nothing else, so that every name is known before the first call. */
function visitEnv(steps: readonly SyntaxNode[], walk: Walk): boolean {
  const [variable, name] = steps
  if (variable?.type !== 'variable' || variable.value !== 'env') return false
  const isPlain = Object.keys(variable).every((part) => part === 'type' || part === 'value' || part === 'position')
  if (!isPlain || name?.type !== 'name') return false
  walk.variables.add('env')
  walk.envNames.add(String(name.value))
  return true
}

function visitParts(node: SyntaxNode, hasContext: boolean, walk: Walk): void {
  for (const [name, part] of Object.entries(node)) {
    const isBinding = (name === 'lhs' && node.type === 'bind') || (name === 'arguments' && node.type === 'lambda')
    if (NO_EXPRESSIONS.has(name) || isBinding) continue
    visit(part, hasContext || INNER_PARTS.has(name), walk)
  }
}

function checkNode(node: SyntaxNode, hasContext: boolean, walk: Walk): void {
  const text = String(node.value)
  if (node.type === 'variable') checkVariable(text, hasContext, walk)
  if (hasContext) return
  if (node.type === 'name') walk.faults.add(`${text} is a field of nothing; ${fieldAdvice(text, walk)}`)
  if (node.type === 'wildcard' || node.type === 'descendant') {
    walk.faults.add(`${text} stands for fields of nothing; begin with a variable, as in $payload.*`)
  }
}

function fieldAdvice(name: string, walk: Walk): string {
  const isVariable = (SCOPE_NAMES as readonly string[]).includes(name) || walk.bound.has(name)
  return isVariable ? `write $${name}` : `begin with a variable, as in $payload.${name}`
}

function checkVariable(name: string, hasContext: boolean, walk: Walk): void {
  if (walk.bound.has(name) || FUNCTION_NAMES.includes(name)) return
  if (name === 'env') {
    walk.faults.add('$env must be followed by a plain name, as in $env.API_KEY')
  } else if ((SCOPE_NAMES as readonly string[]).includes(name)) {
    walk.variables.add(name)
  } else if (name === 'eval') {
    walk.faults.add('$eval is not available: what it would read cannot be checked')
  } else if (name === '$' || (name === '' && !hasContext)) {
    walk.faults.add(`$${name} stands for an input that there is not; begin with a variable, as in $payload`)
  } else if (name !== '') {
    walk.faults.add(`$${name} is not known${didYouMean(name, [...SCOPE_NAMES, ...FUNCTION_NAMES])}`)
  }
}

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && !(value instanceof RegExp)
}
