import { expect, test } from 'vitest'
import {
  type Breaker,
  type BreakerPolicy,
  bearingOf,
  beginProbe,
  type CallEnd,
  callsAllowed,
  DEFAULT_BREAKER,
  noteEnds,
} from '../../src/core/breaker.ts'
import type { Outcome } from '../../src/core/outcome.ts'
import { accepted, unknown } from '../support/store.ts'

const POLICY: BreakerPolicy = { failures: 3, rate: null, probeMs: 1000, maxProbeMs: 3000 }

function answered(kind: 'rejected' | 'blocked' | 'mismatch'): Outcome {
  return { kind, evidence: { phase: 'answered', status: 400 } }
}

function notExecuted(refund: boolean, phase: 'answered' | 'not_sent', rule: string): Outcome {
  return { kind: 'not_executed', refund, written: phase === 'answered', retryAfterMs: null, evidence: { phase, rule } }
}

const LIMITED = notExecuted(true, 'answered', 'default')
const FAILS: CallEnd = { requestId: 1, outcome: unknown() }
const WORKS: CallEnd = { requestId: 1, outcome: accepted('T') }
const SAYS_NOTHING: CallEnd = { requestId: 1, outcome: answered('rejected') }

const after = (breaker: Breaker | null, ends: readonly CallEnd[], now = 0, policy = POLICY) =>
  noteEnds(breaker, ends, policy, now)

test.each([
  ['accepted', accepted('T'), 'success'],
  ['unknown', unknown(), 'failure'],
  ['rejected', answered('rejected'), 'neither'],
  ['blocked', answered('blocked'), 'neither'],
  ['mismatch', answered('mismatch'), 'neither'],
  ['told to wait', LIMITED, 'neither'],
  ['refused by the API', notExecuted(false, 'answered', 'default'), 'failure'],
  ['not reached', notExecuted(true, 'not_sent', 'transport'), 'failure'],
  ['kept back by its lease', notExecuted(true, 'not_sent', 'gate'), 'neither'],
] as const)('%s says of the target: %3$s', (_, outcome, bearing) => {
  expect(bearingOf(outcome)).toBe(bearing)
})

test('failures in a row open it, and a success between them counts anew', () => {
  const two = after(null, [FAILS, FAILS])
  expect(callsAllowed(two, 0)).toBe('any')
  expect(after(two, [WORKS])).toBeNull()
  expect(callsAllowed(after(two, [WORKS, FAILS, FAILS]), 0)).toBe('any')
  expect(after(two, [FAILS], 70)).toMatchObject({ kind: 'open', since: 70, probeAt: 1070, probe: null })
})

test('what says nothing neither counts nor begins anew', () => {
  expect(after(null, [SAYS_NOTHING])).toBeNull()
  expect(after(null, [FAILS, SAYS_NOTHING, FAILS, SAYS_NOTHING, FAILS])).toMatchObject({ kind: 'open' })
})

test('the reason is the failure that opened it', () => {
  const error = { ...unknown(), evidence: { phase: 'unanswered', error: 'ECONNRESET: reset' } } as const
  expect(after(null, [FAILS, FAILS, { requestId: 2, outcome: error }])).toMatchObject({
    reason: 'unknown: ECONNRESET: reset',
  })
})

test('one probe goes once its time has come, and another when that one is given up', () => {
  const opened = after(null, [FAILS, FAILS, FAILS])
  expect([callsAllowed(opened, 999), callsAllowed(opened, 1000)]).toEqual(['none', 'probe'])
  if (opened?.kind !== 'open') throw new Error('it is not open')
  const probing = beginProbe(opened, 7, 1000, 500)
  expect([callsAllowed(probing, 1499), callsAllowed(probing, 1500)]).toEqual(['none', 'probe'])
  expect(after(probing, [{ ...WORKS, requestId: 7 }], 1100)).toBeNull()
})

test('a clock that was set back delays no probe, and permits one at a time', () => {
  const opened = after(null, [FAILS, FAILS, FAILS], 100_000)
  expect([callsAllowed(opened, 40_000), callsAllowed(opened, 99_000)]).toEqual(['probe', 'none'])
  if (opened?.kind !== 'open') throw new Error('it is not open')
  const probing = beginProbe(opened, 7, 40_000, 500)
  expect([callsAllowed(probing, 40_001), callsAllowed(probing, 40_500)]).toEqual(['none', 'probe'])
})

test('each failed probe doubles the wait up to its bound; other failures are no news', () => {
  let breaker = after(null, [FAILS, FAILS, FAILS])
  const waits: number[] = []
  for (let now = 1000; waits.length < 4; now = breaker.probeAt) {
    if (breaker?.kind !== 'open') throw new Error('it is not open')
    breaker = after(beginProbe(breaker, 7, now, 500), [FAILS, { ...FAILS, requestId: 7 }], now)
    if (breaker?.kind !== 'open') throw new Error('it is not open')
    waits.push(breaker.probeAt - now)
  }
  expect(waits).toEqual([2000, 3000, 3000, 3000])
})

test('a probe that says nothing of the target’s health makes room for another', () => {
  const opened = after(null, [FAILS, FAILS, FAILS])
  if (opened?.kind !== 'open') throw new Error('it is not open')
  const told = after(beginProbe(opened, 7, 1000, 500), [{ ...SAYS_NOTHING, requestId: 7 }], 1100)
  expect(callsAllowed(told, 1100)).toBe('probe')
})

test('a share of failures opens it too, of enough calls in its time', () => {
  const policy: BreakerPolicy = { ...POLICY, failures: 100, rate: { share: 0.5, calls: 4, withinMs: 1000 } }
  const mixed = [FAILS, WORKS, WORKS, FAILS]
  expect(after(null, mixed, 0, policy)).toMatchObject({ kind: 'open' })
  expect(after(null, mixed.slice(0, 3), 0, policy)).toMatchObject({ kind: 'closed', calls: 3, failures: 1 })
  const later = after(after(null, [FAILS, FAILS, FAILS], 0, policy), [WORKS, FAILS], 1000, policy)
  expect(later).toMatchObject({ kind: 'closed', calls: 2, failures: 1 })
})

test('by default twenty in a row, and half a minute', () => {
  const many = Array.from({ length: 19 }, () => FAILS)
  expect(after(null, many, 0, DEFAULT_BREAKER)).toMatchObject({ kind: 'closed' })
  expect(after(null, [...many, FAILS], 0, DEFAULT_BREAKER)).toMatchObject({ kind: 'open', probeAt: 30_000 })
})
