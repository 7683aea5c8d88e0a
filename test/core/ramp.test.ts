import { expect, test } from 'vitest'
import { rampAllowance, rampOpensAfterMs, rampShare } from '../../src/core/ramp.ts'

const RAMP_MS = 24_000
const rate = (count: number, perMs: number) => ({ concurrency: null, rate: { count, perMs, burst: 1 } })

test('a tenth of the rate in the first six seconds, then twice as much in each six, then all of it', () => {
  const limits = rate(600, 60_000)
  expect([0, 5999, 6000, 12_000, 18_000, 23_999].map((ms) => rampAllowance(limits, RAMP_MS, ms))).toEqual([
    1, 5, 6, 18, 42, 89,
  ])
  expect(rampAllowance(limits, RAMP_MS, RAMP_MS)).toBe(Number.POSITIVE_INFINITY)
  expect([0, 6000, 12_000, 18_000, 24_000].map((ms) => rampShare(RAMP_MS, ms))).toEqual([0.1, 0.2, 0.4, 0.8, 1])
})

test('without a rate the concurrency counts as calls in six seconds, and without both a worker of the default size', () => {
  expect([6000, 12_000].map((ms) => rampAllowance({ concurrency: 20, rate: null }, RAMP_MS, ms))).toEqual([2, 6])
  expect([6000, 12_000].map((ms) => rampAllowance({ concurrency: null, rate: null }, RAMP_MS, ms))).toEqual([6, 19])
  expect(rampAllowance({ concurrency: 20, rate: { count: 100, perMs: 1000, burst: 1 } }, RAMP_MS, 6000)).toBe(60)
})

test('one call begins at once, however small the limit', () => {
  expect([0, 23_999].map((ms) => rampAllowance(rate(1, 60_000), RAMP_MS, ms))).toEqual([1, 1])
})

test.each([rate(600, 60_000), rate(100, 1000), rate(1, 60_000), { concurrency: 7, rate: null }])(
  'the next opening of %o is the first millisecond that allows one more',
  (limits) => {
    for (let begun = 0; begun < 100; begun++) {
      const at = rampOpensAfterMs(limits, RAMP_MS, begun)
      if (at < RAMP_MS) expect(rampAllowance(limits, RAMP_MS, at)).toBeGreaterThan(begun)
      if (at > 0) expect(rampAllowance(limits, RAMP_MS, at - 1)).toBeLessThanOrEqual(begun)
    }
  },
)
