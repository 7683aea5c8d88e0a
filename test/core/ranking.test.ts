import { expect, test } from 'vitest'
import { MAX_PRIORITY } from '../../src/core/limits.ts'
import { AGED_FROM, HIGHEST_PLAIN_RANK, MAX_AGING_MS, orderOf } from '../../src/core/ranking.ts'

const LATEST_DATE = 8.64e15

test('a rank by age is larger than any by priority, and exact, whatever the due time, the step and the priority', () => {
  const lowest = 0 - MAX_PRIORITY * MAX_AGING_MS + AGED_FROM
  const highest = LATEST_DATE + MAX_PRIORITY * MAX_AGING_MS + AGED_FROM
  expect(lowest).toBeGreaterThan(HIGHEST_PLAIN_RANK)
  expect(Number.isSafeInteger(highest)).toBe(true)
})

test('ranks of both kinds compare as the priorities that they come to by now', () => {
  const now = 1_700_000_000_000
  const aged = (priority: number, waitedMs: number) =>
    orderOf(now - waitedMs - priority * 60_000 + AGED_FROM, 60_000, now)
  expect(aged(3, 0)).toBe(orderOf(-3, null, now))
  expect(aged(0, 180_000)).toBe(-3)
  // Not moved yet since the target began to age.
  expect(orderOf(-3, 60_000, now)).toBe(-3)
})
