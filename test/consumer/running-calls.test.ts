import { expect, test } from 'vitest'
import { createCounters } from '../../src/consumer/counters.ts'
import { createRunningCalls, type HeldCall } from '../../src/consumer/running-calls.ts'
import { createSlots } from '../../src/consumer/slots.ts'
import { instantOf, longestSince, systemClock } from '../../src/core/clock.ts'
import type { ClaimedCall } from '../../src/store/turn.ts'
import type { InvokeOptions, Target, TargetRegistry } from '../../src/target/target.ts'
import { createChance } from '../simulation/chance.ts'

const LEASE_MS = 1000
const TIMEOUT_MS = 400
const RENEW_AFTER_MS = (LEASE_MS - TIMEOUT_MS) / 2

/** Calls that never end by themselves. */
function stage() {
  const now = { wall: 1_000_000, monotonic: 0 }
  const clock = { ...systemClock, wallNow: () => now.wall, monotonicNow: () => now.monotonic }
  const invoked: InvokeOptions[] = []
  const target = {
    policy: { timeoutMs: TIMEOUT_MS },
    invoke: (_: unknown, options: InvokeOptions) => {
      invoked.push(options)
      return new Promise(() => {})
    },
  } as unknown as Target
  const registry = { at: () => target } as unknown as TargetRegistry
  const counters = createCounters()
  const running = createRunningCalls({
    registry,
    clock,
    leaseMs: LEASE_MS,
    counters,
    slots: createSlots(clock, 64),
    onResult: () => {},
  })
  let started = 0
  const start = () => running.start({ requestId: ++started, attempt: 1 } as unknown as ClaimedCall, instantOf(clock))
  return { now, clock, running, start, invoked }
}

test.each([1, 2, 3, 4, 5, 6, 7, 8])('no lease misses its renewal, however the clocks go (seed %i)', (seed) => {
  const { now, clock, running, start } = stage()
  const random = createChance(seed)
  const granted = new Map<number, ReturnType<typeof instantOf>>()
  let renewals = 0
  for (let step = 0; step < 2000; step++) {
    const passed = random.below(40)
    now.monotonic += passed
    now.wall += random.below(50) === 0 ? random.below(2000) - 1000 : passed
    if (random.below(20) === 0 && running.size < 20) {
      start()
      granted.set(running.size, instantOf(clock))
    }
    const isOwed = (id: number) => longestSince(granted.get(id) ?? instantOf(clock), instantOf(clock)) >= RENEW_AFTER_MS
    const owed = [...granted.keys()].filter(isOwed)
    const due = running.dueForRenewal()
    expect(due.map(({ call }) => call.requestId)).toEqual(owed)
    if (owed.length > 0) expect(running.renewalDueInMs()).toBeLessThanOrEqual(0)
    for (const { call, lease } of due) renew(call.requestId, lease)
  }
  expect(renewals).toBeGreaterThan(100)

  function renew(id: number, lease: HeldCall['lease']): void {
    lease.renewed(instantOf(clock))
    granted.set(id, instantOf(clock))
    renewals++
  }
})

test('all calls are ended with the reason, and those that have come to an end are told of nothing', () => {
  const { running, start, invoked } = stage()
  start()
  start()
  const ends: unknown[] = []
  const [first, second] = invoked.map(({ signal }) => signal)
  first?.addEventListener('abort', () => ends.push(first.reason))
  const over = () => ends.push('told after its end')
  second?.addEventListener('abort', over)
  second?.removeEventListener('abort', over)
  running.abort('the worker ended')
  running.abort('again')
  expect(ends).toEqual([new Error('the worker ended')])
  expect(second).toMatchObject({ aborted: true, reason: new Error('the worker ended') })
})
