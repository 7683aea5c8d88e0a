// How long an API asks to wait, read strictly from its headers: what is not surely a wait is null, and the caller's
// own backoff speaks. Pure; header names are lower-case.

export type HeaderMap = Readonly<Record<string, string>>

export const LONGEST_TOLD_WAIT_MS = 24 * 3_600_000

/** The grammar has whole seconds only; decimals are seen in the wild and rounded up. */
const NUMBER = /^\d+(?:\.\d+)?$/
const GO_DURATION = /^(?:\d+(?:\.\d+)?(?:ms|h|m|s))+$/
const GO_PART = /(\d+(?:\.\d+)?)(ms|h|m|s)/g
const RFC_3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/
const DAYS = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const MONTHS = '(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)'
const IMF_FIXDATE = new RegExp(`^${DAYS}, \\d{2} ${MONTHS} \\d{4} \\d{2}:\\d{2}:\\d{2} GMT$`)
const RFC_850 = /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/
const ASCTIME = new RegExp(`^${DAYS} ${MONTHS} [ \\d]\\d \\d{2}:\\d{2}:\\d{2} \\d{4}$`)
const MS_PER: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/** What a configured header's number means; without one it is told from the value. */
const UNITS: Readonly<Record<string, (value: number, now: number) => number>> = {
  s: (value) => Math.ceil(value) * 1000,
  ms: (value) => Math.ceil(value),
  'epoch-s': (value, now) => value * 1000 - now,
  'epoch-ms': (value, now) => value - now,
}

/**
 * @param now wall clock, for answers that carry no Date of their own.
 * @returns milliseconds from now within [0, 24 h]; null where `Retry-After` is absent or no delay or HTTP-date.
 */
export function retryAfterMs(headers: HeaderMap, now: number): number | null {
  const value = headers['retry-after']?.trim()
  if (!value) return null
  if (NUMBER.test(value)) return bounded(Math.ceil(Number(value)) * 1000)
  const at = httpDate(value)
  return Number.isNaN(at) ? null : bounded(at - serverNow(headers, now))
}

/**
 * The wait that a rate-limited answer tells: of the headers named, in order, then of the `RateLimit` family.
 * @param names header names, each with an optional unit after a space: `X-Reset epoch-s` (s, ms, epoch-s, epoch-ms).
 */
export function limitedWaitMs(headers: HeaderMap, names: readonly string[], now: number): number | null {
  for (const entry of names) {
    const wait = namedWaitMs(headers, entry, now)
    if (wait !== null) return wait
  }
  return retryAfterMs(headers, now) ?? rateLimitMs(headers, now)
}

/**
 * `RateLimit: "default";r=0;t=30` (draft 8 and later), `limit=10, remaining=0, reset=30` (draft 7),
 * `RateLimit-Remaining` with `-Reset` (draft 6) and its `X-` forms. Only "nothing left" asks for a wait.
 */
export function rateLimitMs(headers: HeaderMap, now: number): number | null {
  const structured = headers.ratelimit
  if (structured !== undefined) return structuredWaitMs(structured)
  for (const prefix of ['ratelimit-', 'x-ratelimit-', 'x-rate-limit-']) {
    const remaining = headers[`${prefix}remaining`]?.trim()
    const reset = headers[`${prefix}reset`]?.trim()
    if (remaining === undefined || reset === undefined || !NUMBER.test(remaining)) continue
    return Number(remaining) > 0 ? null : guessedWaitMs(reset, headers, now)
  }
  return null
}

/** @returns epoch ms of one of the three HTTP-date forms, else NaN: `Date.parse` alone takes `Jan 1` for a date. */
export function httpDate(value: string): number {
  if (IMF_FIXDATE.test(value) || RFC_850.test(value)) return Date.parse(value)
  return ASCTIME.test(value) ? Date.parse(`${value.replace(/ {2}/, ' 0')} GMT`) : Number.NaN
}

function namedWaitMs(headers: HeaderMap, entry: string, now: number): number | null {
  const [name = '', unit] = entry.trim().toLowerCase().split(/\s+/)
  if (unit === undefined && name === 'retry-after') return retryAfterMs(headers, now)
  const value = headers[name]?.trim()
  if (!value || somethingLeft(headers, name)) return null
  const toMs = UNITS[unit ?? (name.endsWith('-ms') ? 'ms' : '')]
  if (toMs === undefined) return guessedWaitMs(value, headers, now)
  return NUMBER.test(value) ? bounded(toMs(Number(value), serverNow(headers, now))) : null
}

/** A reset that stands beside a remainder is only a wait when nothing is left. */
function somethingLeft(headers: HeaderMap, name: string): boolean {
  if (!name.endsWith('reset')) return false
  const remaining = headers[name.replace(/reset$/, 'remaining')]?.trim()
  return remaining !== undefined && NUMBER.test(remaining) && Number(remaining) > 0
}

function guessedWaitMs(value: string, headers: HeaderMap, now: number): number | null {
  if (NUMBER.test(value)) {
    const number = Number(value)
    const unit = number > 1e12 ? 'epoch-ms' : number > 1e9 ? 'epoch-s' : 's'
    return bounded(UNITS[unit]?.(number, serverNow(headers, now)) ?? Number.NaN)
  }
  if (GO_DURATION.test(value)) {
    let ms = 0
    for (const [, count, unit] of value.matchAll(GO_PART)) ms += Number(count) * (MS_PER[unit ?? ''] ?? 0)
    return bounded(Math.ceil(ms))
  }
  const at = RFC_3339.test(value) ? Date.parse(value) : httpDate(value)
  return bounded(at - serverNow(headers, now))
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
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), LONGEST_TOLD_WAIT_MS)
}
