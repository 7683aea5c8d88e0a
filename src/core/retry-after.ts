// How long an API asks to wait, read strictly from its headers: what is not surely a wait is null, and the caller's
// own backoff speaks. Pure; header names are lower-case.

export type HeaderMap = Readonly<Record<string, string>>

/** An API's longest quotas are of a month: what is longer than that is a mistake of somebody's unit, and no wait. */
export const LONGEST_TOLD_WAIT_MS = 31 * 86_400_000

/** A wait, and the header that told it as people can find it again: `retry-after: 900`. */
export interface ToldWait {
  readonly ms: number
  readonly by: string
}

/** The grammar has whole seconds only; decimals are seen in the wild and rounded up. */
const NUMBER = /^\d+(?:\.\d+)?$/
const DURATION = /^(?:\d+(?:\.\d+)?(?:ms|h|m|s))+$/
const DURATION_PART = /(\d+(?:\.\d+)?)(ms|h|m|s)/g
const RFC_3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/
const DAYS = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const MONTHS = '(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)'
const IMF_FIXDATE = new RegExp(`^${DAYS}, \\d{2} ${MONTHS} \\d{4} \\d{2}:\\d{2}:\\d{2} GMT$`)
const RFC_850 = /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/
const ASCTIME = new RegExp(`^${DAYS} ${MONTHS} [ \\d]\\d \\d{2}:\\d{2}:\\d{2} \\d{4}$`)
const MS_PER: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

export const WAIT_UNITS = ['s', 'ms', 'epoch-s', 'epoch-ms', 'http-date', 'rfc3339', 'duration'] as const
type WaitUnit = (typeof WAIT_UNITS)[number]
type Reader = (value: string, now: number) => number

/**
 * What a header's value means, in ms from now; a value of another form tells nothing (NaN). Deltas in seconds are whole in the
 * grammar, so that decimals are rounded up.
 */
const UNITS: Readonly<Record<WaitUnit, Reader>> = {
  s: (value) => Math.ceil(numberOf(value)) * 1000,
  ms: (value) => numberOf(value),
  'epoch-s': (value, now) => numberOf(value) * 1000 - now,
  'epoch-ms': (value, now) => numberOf(value) - now,
  'http-date': (value, now) => httpDate(value) - now,
  rfc3339: (value, now) => rfc3339(value) - now,
  duration: (value) => durationMs(value),
}

/**
 * @param now wall clock, for answers that carry no Date of their own.
 * @returns milliseconds from now; null where `Retry-After` is absent, no delay or HTTP-date, or longer than a month.
 */
export function retryAfterMs(headers: HeaderMap, now: number): number | null {
  const value = headers['retry-after']?.trim()
  if (!value) return null
  return bounded(NUMBER.test(value) ? UNITS.s(value, now) : httpDate(value) - serverNow(headers, now))
}

/**
 * The wait that a rate-limited answer tells: of the headers named, in order, then of `Retry-After` and the `RateLimit` family.
 * @param names header names, each with an optional unit after a space: `X-Reset epoch-s` (`WAIT_UNITS`).
 */
export function limitedWait(headers: HeaderMap, names: readonly string[], now: number): ToldWait | null {
  for (const entry of names) {
    const wait = namedWait(headers, entry, now)
    if (wait !== null) return wait
  }
  return toldBy(headers, 'retry-after', retryAfterMs(headers, now)) ?? rateLimitWait(headers, now)
}

export function limitedWaitMs(headers: HeaderMap, names: readonly string[], now: number): number | null {
  return limitedWait(headers, names, now)?.ms ?? null
}

/**
 * `RateLimit: "default";r=0;t=30` (draft 8 and later), `limit=10, remaining=0, reset=30` (draft 7),
 * `RateLimit-Remaining` with `-Reset` (draft 6) and its `X-` forms. Only "nothing left" asks for a wait.
 */
export function rateLimitWait(headers: HeaderMap, now: number): ToldWait | null {
  const structured = headers.ratelimit
  if (structured !== undefined) return toldBy(headers, 'ratelimit', structuredWaitMs(structured))
  for (const prefix of ['ratelimit-', 'x-ratelimit-', 'x-rate-limit-']) {
    const remaining = headers[`${prefix}remaining`]?.trim()
    const name = `${prefix}reset`
    const reset = headers[name]?.trim()
    if (remaining === undefined || reset === undefined || !NUMBER.test(remaining)) continue
    return Number(remaining) > 0 ? null : toldBy(headers, name, guessedWaitMs(reset, serverNow(headers, now)))
  }
  return null
}

/** @returns epoch ms of one of the three HTTP-date forms, else NaN: `Date.parse` alone takes `Jan 1` for a date. */
export function httpDate(value: string): number {
  if (IMF_FIXDATE.test(value) || RFC_850.test(value)) return Date.parse(value)
  return ASCTIME.test(value) ? Date.parse(`${value.replace(/ {2}/, ' 0')} GMT`) : Number.NaN
}

function toldBy(headers: HeaderMap, name: string, ms: number | null): ToldWait | null {
  return ms === null ? null : { ms, by: `${name}: ${headers[name]?.trim()}` }
}

function namedWait(headers: HeaderMap, entry: string, now: number): ToldWait | null {
  const [name = '', unit] = entry.trim().toLowerCase().split(/\s+/)
  if (unit === undefined && name === 'retry-after') return toldBy(headers, name, retryAfterMs(headers, now))
  const value = headers[name]?.trim()
  if (!value || somethingLeft(headers, name)) return null
  const read = UNITS[(unit ?? (name.endsWith('-ms') ? 'ms' : '')) as WaitUnit] as Reader | undefined
  const at = serverNow(headers, now)
  return toldBy(headers, name, read === undefined ? guessedWaitMs(value, at) : bounded(read(value, at)))
}

/** A reset that stands beside a remainder is only a wait when nothing is left. */
function somethingLeft(headers: HeaderMap, name: string): boolean {
  if (!name.includes('reset')) return false
  const remaining = headers[name.replace('reset', 'remaining')]?.trim()
  return remaining !== undefined && NUMBER.test(remaining) && Number(remaining) > 0
}

/** No delta is of thirty years, so that such a number is an instant. */
function guessedWaitMs(value: string, now: number): number | null {
  if (NUMBER.test(value)) {
    const number = Number(value)
    return bounded(UNITS[number > 1e12 ? 'epoch-ms' : number > 1e9 ? 'epoch-s' : 's'](value, now))
  }
  if (DURATION.test(value)) return bounded(durationMs(value))
  return bounded((RFC_3339.test(value) ? rfc3339(value) : httpDate(value)) - now)
}

function numberOf(value: string): number {
  return NUMBER.test(value) ? Number(value) : Number.NaN
}

function rfc3339(value: string): number {
  return RFC_3339.test(value) ? Date.parse(value) : Number.NaN
}

function durationMs(value: string): number {
  if (!DURATION.test(value)) return Number.NaN
  let ms = 0
  for (const [, count, unit] of value.matchAll(DURATION_PART)) ms += Number(count) * (MS_PER[unit ?? ''] ?? 0)
  return ms
}

function structuredWaitMs(value: string): number | null {
  let wait: number | null = null
  for (const item of value.match(/(?:"(?:[^"\\]|\\.)*"|[^,"])+/g) ?? []) {
    const left = /;\s*r=(\d+)/.exec(item)?.[1]
    const seconds = /;\s*t=(\d+)/.exec(item)?.[1]
    if (left !== undefined && Number(left) === 0 && seconds !== undefined) {
      wait = Math.max(wait ?? 0, Number(seconds) * 1000)
    }
  }
  if (wait !== null) return bounded(wait)
  const remaining = /(?:^|[,\s])remaining=(\d+)/.exec(value)?.[1]
  const reset = /(?:^|[,\s])reset=(\d+)/.exec(value)?.[1]
  if (remaining === undefined || Number(remaining) > 0 || reset === undefined) return null
  return bounded(Number(reset) * 1000)
}

/** A date is measured against the answer's own clock when it shows one. */
function serverNow(headers: HeaderMap, now: number): number {
  const shown = httpDate(headers.date?.trim() ?? '')
  return Number.isNaN(shown) ? now : shown
}

function bounded(ms: number): number | null {
  return Number.isNaN(ms) || ms > LONGEST_TOLD_WAIT_MS ? null : Math.max(0, Math.ceil(ms))
}
