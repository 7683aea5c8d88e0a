import { expect, test } from 'vitest'
import { holdLease } from '../../src/consumer/lease.ts'
import { instantOf, systemClock } from '../../src/core/clock.ts'

function hold(options: { leaseMs?: number; timeoutMs?: number; writeWithinMs?: number | null } = {}) {
  const now = { wall: 1000, monotonic: 0 }
  const clock = { ...systemClock, wallNow: () => now.wall, monotonicNow: () => now.monotonic }
  const { leaseMs = 1000, timeoutMs = 300, writeWithinMs = null } = options
  const lease = holdLease({ clock, grantedAt: instantOf(clock), leaseMs, timeoutMs, writeWithinMs })
  return { lease, now, renew: () => lease.renewed(instantOf(clock)) }
}

test('bytes leave as long as the lease covers the whole call, by the larger of both clocks', () => {
  const { lease, now } = hold()
  now.monotonic = 700
  expect(lease.refuseWrite()).toBeNull()
  now.wall += 701
  expect(lease.refuseWrite()).toBe('lease_too_short')
  expect(lease.refuseWrite(200)).toBeNull()
})

test('a renewed lease does not bring back the time in which a replay may leave', () => {
  const { lease, now, renew } = hold({ writeWithinMs: 900 })
  now.monotonic = 600
  renew()
  expect(lease.refuseWrite()).toBeNull()
  now.monotonic = 901
  renew()
  expect(lease.refuseWrite()).toBe('too_late')
})

test('a lost lease lets nothing leave', () => {
  const { lease } = hold()
  lease.lost()
  expect(lease.refuseWrite()).toBe('lease_lost')
})
