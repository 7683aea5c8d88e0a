// The kinds of values that a config is made of, as zod schemas whose messages are meant for people.
import { z } from 'zod'
import type { RateLimit } from '../core/policy.ts'
import { WAIT_UNITS } from '../core/retry-after.ts'
import { didYouMean } from '../core/suggest.ts'
import { parseDuration } from './duration.ts'
import { faultsOf, kindOf, unknownKeyHints } from './faults.ts'
import type { TemplateValue } from './target-definition.ts'

const RATE = /^(\d+(?:\.\d+)?)\s*\/\s*(s|sec|second|min|minute|h|hour|d|day)$/
const MS_PER: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
/** A hundred years: sums of instants and durations stay exact. */
const MAX_DURATION_MS = 36_525 * 86_400_000
const HEADER_NAME = /^[!#$%&'*+.^_`|~\w-]+$/
const METHOD = /^[A-Z]+$/

/** A strict object: an unknown key is refused with the nearest known one. */
export function section<Shape extends z.core.$ZodLooseShape>(shape: Shape): z.ZodObject<Shape, z.core.$strict> {
  return z.strictObject(shape, {
    error: (issue) => {
      if (issue.code !== 'unrecognized_keys') return undefined
      return unknownKeyHints(issue.keys as string[], Object.keys(shape))
    },
  })
}

/** Milliseconds of a duration. */
export function duration({ min = 0, max = MAX_DURATION_MS }: { readonly min?: number; readonly max?: number } = {}) {
  return convert((value) => {
    const ms = durationMs(value)
    if (ms < min) throw new Error(`expected at least ${min} ms, got ${ms}`)
    if (ms > max) throw new Error(`expected at most ${max} ms, got ${ms}`)
    return ms
  })
}

/** How long an API remembers: a duration or `forever`. */
export function memory() {
  return convert((value): number | 'forever' => {
    if (value === 'forever') return value
    const ms = durationMs(value)
    if (ms === 0) throw new Error('expected a duration or "forever"; leave it out where it is not known')
    return ms
  })
}

/** Text that may hold expressions; numbers and booleans count as their text. */
export function template() {
  return convert(templateOf)
}

export function templateOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  throw new Error(`expected text, got ${kindOf(value)}`)
}

/** Any JSON whose strings may hold expressions. */
export function templateValue() {
  return convert((value) => plainTemplate(value, 0))
}

/** `10/s`, `600/min`, or `{ count, per, burst }`; the default burst is a tenth of a second's worth, at least 1. */
export function rate() {
  return convert((value): RateLimit => {
    if (typeof value === 'string') return rateOf(value)
    const parsed = rateSection.safeParse(value, { reportInput: true })
    if (!parsed.success) throw new Error(faultyRate(value, parsed.error))
    const { count, per, burst } = parsed.data
    return { count, perMs: per, burst: burst ?? defaultBurst(count, per) }
  })
}

const rateSection = section({
  count: z.number().positive(),
  per: duration({ min: 1 }),
  burst: z.int().min(1).optional(),
})

function faultyRate(value: unknown, error: z.ZodError): string {
  return `expected a rate as in "10/s" or { count, per, burst }, got ${kindOf(value)}${partly(error)}`
}

/** What is wrong with the parts of a value that is read by hand: ` (burst: expected ...)`. */
export function partly(error: z.ZodError): string {
  const reasons = faultsOf(error).map(({ path, message }) => (path === '' ? message : `${path}: ${message}`))
  return ` (${reasons.join('; ')})`
}

export function whole(min: number, max: number) {
  return z.int().min(min).max(max)
}

export function method() {
  return convert((value) => {
    const text = typeof value === 'string' ? value.toUpperCase() : ''
    if (!METHOD.test(text) || text === 'CONNECT' || text === 'TRACE') {
      throw new Error(`expected an HTTP method, got ${kindOf(value)}`)
    }
    return text
  })
}

export function headerName() {
  return z.string().regex(HEADER_NAME, 'expected the name of an HTTP header')
}

/** `Retry-After`, or with the unit of its value: `X-Reset epoch-s`. */
export function waitHeader() {
  return convert((value) => {
    const [name = '', unit, ...more] = typeof value === 'string' ? value.trim().split(/\s+/) : []
    if (!HEADER_NAME.test(name) || more.length > 0) {
      throw new Error(`expected a header's name, and its unit where it needs one, got ${kindOf(value)}`)
    }
    if (unit === undefined) return name
    if (WAIT_UNITS.some((known) => known === unit)) return `${name} ${unit}`
    throw new Error(`unknown unit ${unit}${didYouMean(unit, WAIT_UNITS) || `; known are ${WAIT_UNITS.join(', ')}`}`)
  })
}

/** A header whose presence, or whose value, says that the limit spoke: `Retry-After`, `X-RateLimit-Remaining: 0`. */
export function limitSign() {
  return convert((value) => {
    const [, name = ''] = /^([^:\s]+)(?::\s*\S.*)?$/.exec(typeof value === 'string' ? value.trim() : '') ?? []
    if (HEADER_NAME.test(name)) return (value as string).trim()
    throw new Error(`expected a header as in "Retry-After" or "X-RateLimit-Remaining: 0", got ${kindOf(value)}`)
  })
}

/** Header name to template. */
export function headers() {
  return z.record(headerName(), template())
}

export function statuses() {
  return z.array(whole(100, 599)).readonly()
}

function durationMs(value: unknown): number {
  if (typeof value !== 'string' && typeof value !== 'number') {
    throw new Error(`expected a duration as in 90s or 24h, or milliseconds, got ${kindOf(value)}`)
  }
  return parseDuration(value)
}

function rateOf(text: string): RateLimit {
  const [, digits, unit] = RATE.exec(text) ?? []
  const count = Number(digits)
  const perMs = MS_PER[unit?.[0] ?? '']
  if (perMs === undefined || count === 0) {
    throw new Error(`expected a rate as in "10/s" or "600/min", got ${kindOf(text)}`)
  }
  return { count, perMs, burst: defaultBurst(count, perMs) }
}

function defaultBurst(count: number, perMs: number): number {
  return Math.max(1, Math.floor((count * 100) / perMs))
}

/** A config written in code may hold anything. */
function plainTemplate(value: unknown, depth: number): TemplateValue {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number' && Number.isFinite(value)) return value
  if (depth > 100 || typeof value !== 'object') throw new Error(`expected JSON, got ${kindOf(value)}`)
  if (Array.isArray(value)) return value.map((item) => plainTemplate(item, depth + 1))
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) throw new Error('expected JSON, got an instance of a class')
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plainTemplate(item, depth + 1)]))
}

/** A value read by hand: what `read` throws is the fault's message. */
export function convert<Output>(read: (value: unknown) => Output) {
  return z.unknown().transform((value, context): Output => {
    if (value === undefined) context.addIssue({ code: 'custom', message: 'is required' })
    else {
      try {
        return read(value)
      } catch (error) {
        context.addIssue({ code: 'custom', message: (error as Error).message })
      }
    }
    return z.NEVER
  })
}
