import { expect, test } from 'vitest'
import { createPace } from '../../src/consumer/pace.ts'
import { virtualClock } from '../../src/testing.ts'

test('a worker looks soon where something happened lately, and the less often the longer it was quiet', () => {
  const clock = virtualClock()
  const pace = createPace(clock)
  const after = (ms: number) => {
    clock.advance(ms)
    return pace.nextLookMs()
  }
  expect([after(0), after(20), after(30), after(50.5), after(59.5), after(1e9)]).toEqual([5, 5, 13, 26, 40, 40])
  pace.noteWork()
  expect(after(10)).toBe(5)
})
