// Templates: text with `{% ... %}` in it, each of them a JSONata expression. A text that is one expression and nothing
// else yields that expression's value with its type; any other is put together as text. URLs have rules of their own:
// no part can leave its place.
import { OnceishError } from '../core/errors.ts'
import { type CompiledExpression, compileExpression, type ExpressionScope } from './jsonata-expression.ts'
import type { TemplateValue } from './target-definition.ts'

export type { ExpressionScope } from './jsonata-expression.ts'

export interface CompiledTemplate {
  readonly source: string
  readonly isConstant: boolean
  /** Of payload, key, request, taskId, response, env. */
  readonly variables: ReadonlySet<string>
  readonly envNames: ReadonlySet<string>
  /**
   * A whole-string expression's value, undefined for nothing; else text. Throws OnceishError RENDER_FAILED where a part
   * of a text yields nothing.
   */
  evaluate(scope: ExpressionScope): unknown
}

export interface CompiledUrl extends CompiledTemplate {
  /** Absolute; its origin is the source's. */
  evaluate(scope: ExpressionScope): string
}

type Part = string | CompiledExpression

const OPEN = '{%'
const CLOSE = '%}'

/** Throws OnceishError CONFIG_INVALID with the reason and the position in the expression. */
export function compileTemplate(source: string): CompiledTemplate {
  const parts = partsOf(source)
  const [only] = parts
  if (parts.length === 1 && typeof only === 'object') {
    return describe(source, parts, (scope) => only.evaluate(scope))
  }
  return describe(source, parts, (scope) => parts.map((part) => textOf(part, scope)).join(''))
}

/** Any JSON whose strings may be templates; evaluates to a fresh value. Members and items that yield nothing are left out. */
export function compileTemplateValue(value: TemplateValue): CompiledTemplate {
  const leaves: CompiledTemplate[] = []
  const evaluate = compileNode(value, '', leaves)
  return {
    source: typeof value === 'string' ? value : JSON.stringify(value),
    isConstant: leaves.every((leaf) => leaf.isConstant),
    variables: new Set(leaves.flatMap((leaf) => [...leaf.variables])),
    envNames: new Set(leaves.flatMap((leaf) => [...leaf.envNames])),
    evaluate,
  }
}

/** Parts of a URL are percent-encoded. Throws CONFIG_INVALID unless scheme, host and port are constant text. */
export function compileUrl(source: string): CompiledUrl {
  const parts = partsOf(source)
  const origin = originOf(source, parts)
  const queryAt = parts.findIndex((part) => typeof part === 'string' && part.includes('?'))
  const evaluate = (scope: ExpressionScope): string => {
    const text = parts.map((part, i) => urlTextOf(part, scope, queryAt === -1 || i < queryAt)).join('')
    if (hasDotSegment(text)) throw renderFault(`the URL ${source} gets a path segment "." or ".."`)
    if (new URL(text).origin !== origin) throw renderFault(`the URL ${source} leaves its origin ${origin}`)
    return text
  }
  return { ...describe(source, parts, evaluate), evaluate }
}

function describe(
  source: string,
  parts: readonly Part[],
  evaluate: (scope: ExpressionScope) => unknown,
): CompiledTemplate {
  const expressions = parts.filter((part) => typeof part === 'object')
  return {
    source,
    isConstant: expressions.length === 0,
    variables: new Set(expressions.flatMap((part) => [...part.variables])),
    envNames: new Set(expressions.flatMap((part) => [...part.envNames])),
    evaluate,
  }
}

function compileNode(
  value: TemplateValue,
  path: string,
  leaves: CompiledTemplate[],
): (scope: ExpressionScope) => unknown {
  if (typeof value === 'string') {
    const leaf = compileLeaf(value, path)
    leaves.push(leaf)
    return (scope) => leaf.evaluate(scope)
  }
  if (typeof value !== 'object' || value === null) return () => value
  if (isArray(value)) {
    const items = value.map((item, i) => compileNode(item, `${path}[${i}]`, leaves))
    return (scope) => items.map((item) => item(scope)).filter((item) => item !== undefined)
  }
  const members = Object.entries(value).map(([name, item]) => {
    if (name.includes(OPEN)) throw configFault(`the field name "${name}" holds an expression; only values can`)
    return [name, compileNode(item, path === '' ? name : `${path}.${name}`, leaves)] as const
  })
  return (scope) =>
    Object.fromEntries(members.map(([name, item]) => [name, item(scope)]).filter(([, item]) => item !== undefined))
}

function compileLeaf(source: string, path: string): CompiledTemplate {
  try {
    return compileTemplate(source)
  } catch (error) {
    if (path === '' || !(error instanceof OnceishError)) throw error
    throw new OnceishError(error.code, `${path}: ${error.message}`, { cause: error })
  }
}

function partsOf(source: string): Part[] {
  const parts: Part[] = []
  let from = 0
  for (;;) {
    const open = source.indexOf(OPEN, from)
    const text = source.slice(from, open === -1 ? undefined : open)
    if (text.includes(CLOSE)) throw configFault(`"${source}" has a ${CLOSE} that no ${OPEN} opens`)
    if (text !== '') parts.push(text)
    if (open === -1) return parts
    const { expression, end } = expressionAt(source, open + OPEN.length)
    parts.push(expression)
    from = end
  }
}

/** `%}` can stand in a string of the expression too: the first that leaves a whole expression before it closes it. */
function expressionAt(
  source: string,
  start: number,
): { readonly expression: CompiledExpression; readonly end: number } {
  let firstFault: unknown
  for (let close = source.indexOf(CLOSE, start); close !== -1; close = source.indexOf(CLOSE, close + 1)) {
    try {
      return { expression: compileExpression(source.slice(start, close)), end: close + CLOSE.length }
    } catch (error) {
      firstFault ??= error
    }
  }
  throw firstFault ?? configFault(`"${source}" has a ${OPEN} that no ${CLOSE} closes`)
}

function textOf(part: Part, scope: ExpressionScope): string {
  if (typeof part === 'string') return part
  const value = part.evaluate(scope)
  if (value === undefined || value === null) throw renderFault(`${quote(part)} yields nothing`)
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function urlTextOf(part: Part, scope: ExpressionScope, isPath: boolean): string {
  if (typeof part === 'string') return part
  const value = part.evaluate(scope)
  if (value === undefined || value === null) throw renderFault(`${quote(part)} yields nothing, in a URL`)
  if (typeof value === 'object') throw renderFault(`${quote(part)} yields an object or array, in a URL`)
  const text = String(value)
  if (isPath && text === '') throw renderFault(`${quote(part)} yields an empty text, in the path of a URL`)
  if (!text.isWellFormed()) throw renderFault(`${quote(part)} yields a text with a lone surrogate, in a URL`)
  return encodeURIComponent(text)
}

/** Also the percent-encoded spellings, which URL parsers resolve just so. */
function hasDotSegment(url: string): boolean {
  const [path = ''] = url.split('?')
  return path.split('/').some((segment) => /^(?:\.|%2e){1,2}$/i.test(segment))
}

function originOf(source: string, parts: readonly Part[]): string {
  const constant = parts.filter((part) => typeof part === 'string')
  const head = typeof parts[0] === 'string' ? parts[0] : ''
  const match = /^https?:\/\/[^/?#\\]+(?=[/?]|$)/i.exec(head)
  if (match === null) {
    throw configFault(`the URL "${source}" must begin with a constant http:// or https:// origin, then "/" or "?"`)
  }
  const origin = parsedOrigin(source, match[0])
  if (match[0].length === head.length && parts.length > 1) {
    throw configFault(`the URL "${source}" has an expression in its origin; scheme, host and port must be constant`)
  }
  if (constant.some((text) => /[\s\\#\p{Cc}]/u.test(text))) {
    throw configFault(`the URL "${source}" has a space, a backslash, a "#" or a control character; percent-encode it`)
  }
  const skeleton = parts.map((part) => (typeof part === 'string' ? part : 'x')).join('')
  if (hasDotSegment(skeleton)) throw configFault(`the URL "${source}" has a path segment "." or ".."`)
  return origin
}

function parsedOrigin(source: string, head: string): string {
  if (!URL.canParse(head)) throw configFault(`the URL "${source}" has no valid host`)
  const { origin, username, password } = new URL(head)
  // In a URL a credential would be stored with every attempt.
  if (username !== '' || password !== '') throw configFault('a URL must not hold a user name or password; use a header')
  return origin
}

function quote(expression: CompiledExpression): string {
  return `the expression ${OPEN}${expression.text}${CLOSE}`
}

function renderFault(message: string): OnceishError {
  return new OnceishError('RENDER_FAILED', message)
}

function configFault(message: string): OnceishError {
  return new OnceishError('CONFIG_INVALID', message)
}

function isArray(value: TemplateValue): value is readonly TemplateValue[] {
  return Array.isArray(value)
}
