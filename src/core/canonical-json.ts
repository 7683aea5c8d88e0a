// Canonical JSON (RFC 8785): the one text for a value, so that equal payloads have equal hashes.
// Refuses whatever JSON cannot say exactly, with the path of the first offender.
import { OnceishError } from './errors.ts'

const MAX_DEPTH = 512

/**
 * @returns the text of RFC 8785: members sorted by UTF-16 code units, numbers as ECMAScript prints them, -0 as 0.
 * @throws OnceishError PAYLOAD_NOT_CANONICAL for NaN, Infinity, undefined, functions, symbols, BigInt, Date and other
 * class instances, lone surrogates, cycles and nesting beyond 512 levels; the message names the path.
 */
export function canonicalJson(value: unknown): string {
  return write(value, '$', 0)
}

function write(value: unknown, path: string, depth: number): string {
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) refuse(path, 'a string with a lone surrogate', 'send well-formed Unicode')
      return JSON.stringify(value)
    case 'number':
      if (!Number.isFinite(value)) refuse(path, String(value), 'JSON has no such number')
      return Object.is(value, -0) ? '0' : String(value)
    case 'boolean':
      return value ? 'true' : 'false'
    case 'object':
      if (value === null) return 'null'
      if (depth >= MAX_DEPTH) refuse(path, `nesting beyond ${MAX_DEPTH} levels`, 'flatten it, or break the cycle')
      return Array.isArray(value) ? writeArray(value, path, depth) : writeObject(value, path, depth)
    default:
      return refuse(path, typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`, 'JSON cannot hold it')
  }
}

function writeArray(values: readonly unknown[], path: string, depth: number): string {
  let text = '['
  for (let i = 0; i < values.length; i++) text += (i === 0 ? '' : ',') + write(values[i], `${path}[${i}]`, depth + 1)
  return `${text}]`
}

function writeObject(value: object, path: string, depth: number): string {
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) {
    refuse(path, `a ${value.constructor?.name ?? 'class instance'}`, 'turn it into plain JSON first')
  }
  let text = '{'
  let first = true
  for (const name of Object.keys(value).sort()) {
    if (!name.isWellFormed()) refuse(path, 'a member name with a lone surrogate', 'send well-formed Unicode')
    text += `${first ? '' : ','}${JSON.stringify(name)}:${write((value as Record<string, unknown>)[name], memberPath(path, name), depth + 1)}`
    first = false
  }
  return `${text}}`
}

function memberPath(path: string, name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? `${path}.${name}` : `${path}[${JSON.stringify(name)}]`
}

function refuse(path: string, what: string, advice: string): never {
  throw new OnceishError(
    'PAYLOAD_NOT_CANONICAL',
    `the payload holds ${what} at ${path.length > 120 ? `${path.slice(0, 120)}...` : path}: ${advice}`,
    {
      details: { path },
    },
  )
}
