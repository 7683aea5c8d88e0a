import { expect, test } from 'vitest'
import { formatDuration, parseDuration } from '../../src/config/duration.ts'

test.each([
  ['500ms', 500],
  ['90s', 90_000],
  ['15m', 900_000],
  ['1h', 3_600_000],
  ['24h', 86_400_000],
  ['7d', 604_800_000],
  [' 1s ', 1000],
  ['0', 0],
  ['0s', 0],
  [1500, 1500],
  [0, 0],
])('%j is %i ms', (written, ms) => {
  expect(parseDuration(written)).toBe(ms)
})

test.each(['', '30', '5 minutes', '1h30m', '1.5h', '-1s', '1S', 's', '1w', '9999999d', -1, 1.5, Number.NaN, Infinity])(
  '%j is refused, with the forms that are right',
  (written) => {
    expect(() => parseDuration(written)).toThrow(/is no duration: write 500ms, 90s, 15m, 24h or 7d/)
  },
)

test.each([
  [0, '0ms'],
  [500, '500ms'],
  [90_000, '1m 30s'],
  [3_600_000, '1h'],
  [93_600_000, '1d 2h'],
  [86_403_000, '1d'],
  [-1000, '-1s'],
])('%i ms is shown as %s', (ms, text) => {
  expect(formatDuration(ms)).toBe(text)
})
