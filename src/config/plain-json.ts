// JSONata answers with arrays and objects that carry marks of its own; what leaves an expression is plain JSON.
import { OnceishError } from '../core/errors.ts'

const MAX_DEPTH = 600

/**
 * @returns a copy that shares nothing with `value`; undefined stays undefined.
 * @param text of the expression, for the message.
 * @throws OnceishError RENDER_FAILED for functions and numbers that JSON cannot hold.
 */
export function plainJson(value: unknown, text: string, depth = 0): unknown {
  if (typeof value === 'function') return refuse(text, 'a function')
  if (typeof value === 'number' && !Number.isFinite(value)) return refuse(text, String(value))
  if (typeof value !== 'object' || value === null) return value
  if (depth > MAX_DEPTH) return refuse(text, `a value nested deeper than ${MAX_DEPTH} levels`)
  if (Array.isArray(value)) return Array.from(value, (item) => plainJson(item, text, depth + 1) ?? null)
  // Not assignment: a field named __proto__ must stay a field.
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plainJson(item, text, depth + 1)]))
}

function refuse(text: string, what: string): never {
  throw new OnceishError('RENDER_FAILED', `the expression {%${text}%} yields ${what}, which JSON cannot hold`)
}
