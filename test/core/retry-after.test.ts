import { describe, expect, it } from 'vitest'
import {
  httpDate,
  LONGEST_TOLD_WAIT_MS,
  limitedWait,
  limitedWaitMs,
  rateLimitWait,
  retryAfterMs,
} from '../../src/core/retry-after.ts'

const NOW = Date.parse('2026-03-01T12:00:00Z')

describe('Retry-After', () => {
  it.each([
    ['0', 0],
    ['120', 120_000],
    [' 7 ', 7000],
    ['1.2', 2000],
    ['Sun, 01 Mar 2026 12:00:30 GMT', 30_000],
    ['Sunday, 01-Mar-26 12:00:30 GMT', 30_000],
    ['Sun Mar  1 12:00:30 2026', 30_000],
    ['Sun, 01 Mar 2026 11:00:00 GMT', 0],
    ['172800', 172_800_000],
    [String(LONGEST_TOLD_WAIT_MS / 1000), LONGEST_TOLD_WAIT_MS],
  ])('reads "%s"', (value, ms) => {
    expect(retryAfterMs({ 'retry-after': value }, NOW)).toBe(ms)
  })

  it.each(['', '-5', '1e3', '0x10', 'Jan 1', 'soon', '5, 6', 'NaN', '2026-03-01T12:00:30Z', '2678401', '1893456000'])(
    'refuses "%s"',
    (value) => {
      expect(retryAfterMs({ 'retry-after': value }, NOW)).toBeNull()
    },
  )

  it('measures a date against the clock that the answer shows', () => {
    const headers = { 'retry-after': 'Sun, 01 Mar 2026 10:00:30 GMT', date: 'Sun, 01 Mar 2026 10:00:00 GMT' }
    expect(retryAfterMs(headers, NOW)).toBe(30_000)
  })

  it('is null without the header', () => {
    expect(retryAfterMs({}, NOW)).toBeNull()
  })

  it('takes no other text for a date', () => {
    expect(httpDate('2026-03-01')).toBeNaN()
  })
})

describe('RateLimit headers', () => {
  it.each([
    [{ ratelimit: '"default";r=0;t=30' }, 30_000],
    [{ ratelimit: '"a";r=0;t=5, "b";r=0;t=50' }, 50_000],
    [{ ratelimit: '"default";r=3;t=30' }, null],
    [{ ratelimit: 'limit=10, remaining=0, reset=30' }, 30_000],
    [{ ratelimit: 'limit=10, remaining=1, reset=30' }, null],
    [{ 'ratelimit-remaining': '0', 'ratelimit-reset': '9' }, 9000],
    [{ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW / 1000 + 60) }, 60_000],
    [{ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW + 1500) }, 1500],
    [{ 'x-ratelimit-remaining': '12', 'x-ratelimit-reset': '60' }, null],
    [{ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': 'tomorrow' }, null],
  ])('reads %o', (headers, ms) => {
    expect(rateLimitWait(headers as Record<string, string>, NOW)?.ms ?? null).toBe(ms)
  })
})

describe('the headers that a target names', () => {
  it.each([
    [['Retry-After'], { 'retry-after': '3' }, 3000],
    [['Retry-After-Ms'], { 'retry-after-ms': '250' }, 250],
    [['X-Wait ms'], { 'x-wait': '250' }, 250],
    [['X-Reset epoch-s'], { 'x-reset': String(NOW / 1000 + 4) }, 4000],
    [['X-Reset'], { 'x-reset': '6m0s' }, 360_000],
    [['X-Reset'], { 'x-reset': '20ms' }, 20],
    [['X-Reset'], { 'x-reset': '2026-03-01T12:00:05Z' }, 5000],
    [['X-Missing', 'X-Reset'], { 'x-reset': '2' }, 2000],
    [['X-RateLimit-Reset'], { 'x-ratelimit-reset': '60', 'x-ratelimit-remaining': '5' }, null],
    [['X-Other'], { 'retry-after': '3' }, 3000],
    [['X-Other'], { ratelimit: '"default";r=0;t=30' }, 30_000],
    [[], {}, null],
    [['X-Wait s'], { 'x-wait': '1.5' }, 2000],
    [['X-Wait s'], { 'x-wait': '1893456000' }, null],
    [['X-Reset epoch-ms'], { 'x-reset': String(NOW + 250) }, 250],
    [['X-Reset epoch-s'], { 'x-reset': String(NOW / 1000 - 9) }, 0],
    [['X-Reset epoch-s'], { 'x-reset': '6m0s' }, null],
    [['X-Reset http-date'], { 'x-reset': 'Sun, 01 Mar 2026 12:00:30 GMT' }, 30_000],
    [['X-Reset http-date'], { 'x-reset': '30' }, null],
    [['X-Reset rfc3339'], { 'x-reset': '2026-03-01T13:00:05+01:00' }, 5000],
    [['X-Reset rfc3339'], { 'x-reset': '2026-03-01' }, null],
    [['X-Reset duration'], { 'x-reset': '1h0m1.5s' }, 3_601_500],
    [['X-Reset duration'], { 'x-reset': '5' }, null],
    [
      ['X-RateLimit-Reset-Tokens'],
      { 'x-ratelimit-reset-tokens': '6m0s', 'x-ratelimit-remaining-tokens': '0' },
      360_000,
    ],
    [['X-RateLimit-Reset-Tokens'], { 'x-ratelimit-reset-tokens': '6m0s', 'x-ratelimit-remaining-tokens': '9' }, null],
  ])('%o of %o', (names, headers, ms) => {
    expect(limitedWaitMs(headers as Record<string, string>, names, NOW)).toBe(ms)
  })

  it('an instant is measured against the clock that the answer shows', () => {
    const headers = { 'x-reset': String(NOW / 1000 + 30), date: 'Sun, 01 Mar 2026 12:00:10 GMT' }
    expect(limitedWaitMs(headers, ['X-Reset epoch-s'], NOW - 3_600_000)).toBe(20_000)
  })

  it.each([
    [['X-Missing', 'X-Reset epoch-s'], { 'x-reset': String(NOW / 1000 + 4) }, `x-reset: ${NOW / 1000 + 4}`],
    [['X-Other'], { 'retry-after': ' 3 ' }, 'retry-after: 3'],
    [['X-Other'], { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '60' }, 'x-ratelimit-reset: 60'],
    [['X-Other'], { 'x-other': 'soon' }, undefined],
  ])('%o of %o says which told it', (names, headers, by) => {
    expect(limitedWait(headers as Record<string, string>, names, NOW)?.by).toBe(by)
  })
})
