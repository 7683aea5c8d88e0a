// Fast path for the commonest expressions: `$payload`, `$response.body.id`, `$response.status = 409`. It answers only
// where each step is an own property of a plain object, so that its answers are JSONata's; else it says UNSURE.
import { SCOPE_NAMES, type SyntaxNode } from './expression-names.ts'

export const UNSURE = Symbol('ask JSONata')

type Variables = Readonly<Partial<Record<(typeof SCOPE_NAMES)[number], unknown>>>
export type PlainPath = (variables: Variables) => unknown

interface Path {
  readonly variable: keyof Variables
  readonly fields: readonly string[]
}

/** Null: the expression is none of these. */
export function compilePlainPath(tree: SyntaxNode): PlainPath | null {
  if (tree.type === 'binary') return compileComparison(tree)
  const path = pathOf(tree)
  return path === null ? null : (variables) => read(path, variables)
}

function compileComparison(tree: SyntaxNode): PlainPath | null {
  const path = hasOnly(tree, 'type', 'value', 'position', 'lhs', 'rhs') ? pathOf(tree.lhs) : null
  if (path === null || !isLiteral(tree.rhs) || (tree.value !== '=' && tree.value !== '!=')) return null
  const wanted = tree.rhs.value
  const isEqual = tree.value === '='
  return (variables) => {
    const value = read(path, variables)
    // To JSONata nothing is neither equal nor unequal to anything.
    if (value === undefined) return false
    return value === UNSURE || isObject(value) ? UNSURE : (value === wanted) === isEqual
  }
}

function read({ variable, fields }: Path, variables: Variables): unknown {
  let value = variables[variable]
  for (const field of fields) {
    if (!isPlainObject(value)) return UNSURE
    if (!Object.hasOwn(value, field)) return undefined
    value = value[field]
  }
  // JSONata may unwrap or flatten what a path ends in.
  return fields.length > 0 && Array.isArray(value) ? UNSURE : value
}

function pathOf(tree: unknown): Path | null {
  if (isVariable(tree)) return { variable: tree.value, fields: [] }
  if (!isObject(tree) || tree.type !== 'path' || !hasOnly(tree, 'type', 'steps') || !Array.isArray(tree.steps)) {
    return null
  }
  const [variable, ...steps] = tree.steps as SyntaxNode[]
  if (!isVariable(variable) || !steps.every((step) => step.type === 'name' && isSimple(step))) return null
  return { variable: variable.value, fields: steps.map((step) => String(step.value)) }
}

function isVariable(tree: unknown): tree is SyntaxNode & { readonly value: keyof Variables } {
  return isObject(tree) && tree.type === 'variable' && isSimple(tree) && isScopeName(tree.value)
}

function isScopeName(name: unknown): boolean {
  return (SCOPE_NAMES as readonly unknown[]).includes(name)
}

function isLiteral(tree: unknown): tree is SyntaxNode {
  return isObject(tree) && (tree.type === 'number' || tree.type === 'string' || tree.type === 'value') && isSimple(tree)
}

function isSimple(tree: SyntaxNode): boolean {
  return hasOnly(tree, 'type', 'value', 'position')
}

function hasOnly(tree: SyntaxNode, ...names: string[]): boolean {
  return Object.keys(tree).every((name) => names.includes(name))
}

function isObject(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null
}

/** JSONata takes objects with its own marks for functions, whoever sent them. */
function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (!isObject(value)) return false
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  return value._jsonata_function !== true && value._jsonata_lambda !== true
}
