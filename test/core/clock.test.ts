import { expect, test } from 'vitest'
import { type Clock, steadyTime, wasSetBack } from '../../src/core/clock.ts'

/** A clock whose wall can be set; time itself passes for both. */
function settable(start = 1_000_000) {
  const time = { wall: start, mono: 0 }
  const clock: Clock = { wallNow: () => time.wall, monotonicNow: () => time.mono, after: () => () => {} }
  const pass = (ms: number) => {
    time.wall += ms
    time.mono += ms
  }
  const set = (ms: number) => {
    time.wall += ms
  }
  return { clock, pass, set }
}

test('a clock was set back where it shows surely less than it did: two readings may differ', () => {
  expect([5000, 4000, 3999].map((now) => wasSetBack(5000, now))).toEqual([false, false, true])
})

test('steady time goes on while the wall clock is set back, and follows it forward', () => {
  const { clock, pass, set } = settable()
  const steady = steadyTime(clock)
  pass(1000)
  set(-5000)
  expect(steady.now()).toBe(1_001_000)
  pass(1000)
  expect(steady.now()).toBe(1_002_000)
  set(8000)
  expect(steady.now()).toBe(1_005_000)
})

test('a time that was seen counts, also where the clock was ahead only for a while', () => {
  const { clock, pass, set } = settable()
  const steady = steadyTime(clock)
  set(10_000)
  expect(steady.now()).toBe(1_010_000)
  set(-10_000)
  pass(500)
  expect(steady.now()).toBe(1_010_500)
})

test('what another process saw of a clock that was set back is taken over from the store', () => {
  const { clock, pass } = settable()
  const steady = steadyTime(clock)
  steady.hear({ clockAheadMs: 7000, highWaterAt: 0 })
  pass(100)
  expect(steady.now()).toBe(1_007_100)
})

test('what is known already is not counted again when the clock is set right', () => {
  const { clock, set } = settable()
  const steady = steadyTime(clock)
  set(-3_600_000)
  expect(steady.now()).toBe(1_000_000)
  steady.hear({ clockAheadMs: 3_600_000, highWaterAt: 0 })
  set(3_600_000)
  steady.hear({ clockAheadMs: 3_600_000, highWaterAt: 0 })
  expect(steady.now()).toBe(1_000_000)
})

test.each([
  ['by its calls, which are of a time to come', 5000],
  ['since it did not look for longer than the clock was ahead', 13_000],
])('time by which another process may have called is not taken back by one that knows better: %s', (_, laterMs) => {
  const { clock, pass, set } = settable()
  const watching = steadyTime(clock)
  set(-12_000)
  watching.hear({ clockAheadMs: 12_000, highWaterAt: 0 })
  set(12_000)
  const other = steadyTime(clock)
  other.hear({ clockAheadMs: 12_000, highWaterAt: 0 })
  const highWaterAt = other.now()
  pass(laterMs)
  watching.hear({ clockAheadMs: 12_000, highWaterAt })
  expect(watching.now()).toBe(highWaterAt + laterMs)
})

test('fractions of the monotonic clock are lost to the caller, not to the time', () => {
  const { clock, pass } = settable()
  const steady = steadyTime({ ...clock, wallNow: () => 1_000_000 })
  for (let i = 0; i < 10; i++) {
    pass(0.9)
    steady.now()
  }
  expect(steady.now()).toBe(1_000_009)
})
