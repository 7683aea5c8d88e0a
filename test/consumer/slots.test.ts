import { expect, test } from 'vitest'
import { createSlots } from '../../src/consumer/slots.ts'
import { virtualClock } from '../../src/testing.ts'

test('a call takes one of all slots for a quarter of a second, and one of its target as long as it runs', () => {
  const clock = virtualClock()
  const slots = createSlots(clock, 3)
  const [first, second] = [slots.take('hangs'), slots.take('hangs')]
  expect([slots.free(), slots.standingOf('hangs').room, slots.standingOf('other').room]).toEqual([1, 1, 3])
  expect(slots.nextFreeInMs()).toBe(250)
  clock.advance(150)
  slots.take('hangs')
  expect([slots.free(), slots.nextFreeInMs()]).toEqual([0, 100])
  clock.advance(100)
  expect([slots.free(), slots.standingOf('hangs').room]).toEqual([2, 0])
  expect(slots.nextFreeInMs()).toBe(150)
  slots.release(first)
  slots.release(second)
  expect([slots.free(), slots.standingOf('hangs').room]).toEqual([2, 2])
})

test('however many targets hang, there are at most four times as many calls as slots', () => {
  const clock = virtualClock()
  const slots = createSlots(clock, 2)
  for (const target of ['a', 'b', 'c', 'd']) {
    expect(slots.free()).toBe(2)
    slots.take(target)
    slots.take(target)
    clock.advance(250)
  }
  expect(slots.free()).toBe(0)
  expect(slots.nextFreeInMs()).toBe(Number.POSITIVE_INFINITY)
})

test('who began a call longest ago stands lowest', () => {
  const slots = createSlots(virtualClock(), 8)
  for (const target of ['a', 'b', 'a']) slots.release(slots.take(target))
  const lastTaken = (target: string) => slots.standingOf(target).lastTaken
  expect(['a', 'b', 'c'].toSorted((one, other) => lastTaken(one) - lastTaken(other))).toEqual(['c', 'b', 'a'])
})
