// What callers hand over from plain JavaScript, where no type stands guard. A field that is misspelled would be a wish that nobody
// hears: a dry run that removes, a filter that means all.
import { OnceishError } from './errors.ts'
import { didYouMean } from './suggest.ts'

/** Whether a value will do, and what would. */
export type Check = readonly [is: (value: unknown) => boolean, what: string]

/** Each field of an options type, so that the two stay in step. */
export type Fields<T> = Readonly<Record<keyof T & string, Check>>

export const TEXT: Check = [(value) => typeof value === 'string', 'text']
export const FLAG: Check = [(value) => typeof value === 'boolean', 'true or false']
export const FUNCTION: Check = [(value) => typeof value === 'function', 'a function']
export const ID: Check = [(value) => Number.isSafeInteger(value), 'a whole number']
export const DURATION: Check = [(value) => typeof value === 'number' && value >= 0, 'a number of milliseconds']
export const SIGNAL: Check = [(value) => value instanceof AbortSignal, 'an AbortSignal']
/** Whoever reads it checks it. */
export const CHECKED_LATER: Check = [() => true, '']

export function oneOf(words: readonly string[]): Check {
  return [(value) => words.includes(value as string), words.join(', ')]
}

export function listOf([is, what]: Check): Check {
  return [(value) => Array.isArray(value) && value.every(is), `a list, each of it ${what}`]
}

/**
 * @param what they are, for the message.
 * @returns `given`; nothing where it is absent. @throws OnceishError USAGE
 */
export function checkedOptions<T extends object>(what: string, given: T | undefined, fields: Fields<T>): T {
  if (given === undefined) return {} as T
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new OnceishError('USAGE', `${what} are an object, not ${said(given)}`)
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(fields, name))
      throw new OnceishError(
        'USAGE',
        `${what} know no ${JSON.stringify(name)}${didYouMean(name, Object.keys(fields))} (known: ${Object.keys(fields).join(', ')})`,
      )
    const [is, wanted] = fields[name as keyof T & string]
    if (value !== undefined && !is(value)) throw new OnceishError('USAGE', `${name} is ${wanted}, not ${said(value)}`)
  }
  return given
}

/** @throws OnceishError REQUEST_INVALID */
export function checkedId(what: string, id: number): number {
  if (Number.isSafeInteger(id)) return id
  throw new OnceishError('REQUEST_INVALID', `${what} is a whole number, not ${said(id)}`)
}

/** Short, whatever it is: what is long might be a secret in the wrong place. */
export function said(value: unknown): string {
  if (value === undefined || value === null || typeof value === 'number' || typeof value === 'boolean')
    return `${value}`
  if (typeof value === 'string') return value.length <= 40 ? JSON.stringify(value) : 'a long text'
  return Array.isArray(value) ? 'a list' : typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
