// JSONata answers with arrays and objects that carry marks of its own; what leaves an expression is plain JSON.
import { OnceishError } from '../core/errors.ts'

const MAX_DEPTH = 600

/**
 * @returns a copy that shares nothing with `value`; undefined stays undefined.
 * @param source names the expression in the message of RENDER_FAILED, for functions and numbers that JSON cannot hold.
 */
export function plainJson(value: unknown, source: string, depth = 0): unknown {
  if (typeof value === 'function') return refuse(source, 'a function')
  if (typeof value === 'number' && !Number.isFinite(value)) return refuse(source, String(value))
  if (typeof value !== 'object' || value === null) return value
  if (depth > MAX_DEPTH) return refuse(source, `a value nested deeper than ${MAX_DEPTH} levels`)
  if (Array.isArray(value)) return Array.from(value, (item) => plainJson(item, source, depth + 1) ?? null)
  // Not assignment: a field named __proto__ must stay a field.
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plainJson(item, source, depth + 1)]))
}

function refuse(source: string, what: string): never {
  throw new OnceishError('RENDER_FAILED', `the expression ${source} yields ${what}, which JSON cannot hold`)
}
