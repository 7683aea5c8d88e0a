// The calls that this worker has out: each with its lease as its holder sees it, and the way to end it.
import { type Clock, type Instant, instantOf, longestSince } from '../core/clock.ts'
import type { AttemptResult } from '../core/settlement.ts'
import type { ClaimedCall } from '../store/turn.ts'
import type { TargetRegistry } from '../target/target.ts'
import { makeAttempt } from './attempt.ts'
import { type CallAbort, createCallAbort } from './call-abort.ts'
import type { Counting } from './counters.ts'
import { firstRenewalMs, type HeldLease, holdLease } from './lease.ts'
import type { Slots } from './slots.ts'

export interface RunningCalls {
  readonly size: number
  /** @param grantedAt when its lease began. */
  start(call: ClaimedCall, grantedAt: Instant): void
  renewalDueInMs(): number
  dueForRenewal(): readonly HeldCall[]
  /** Their leases are gone: those that are not written yet must not be. */
  lose(calls: readonly { readonly requestId: number; readonly attempt: number }[]): void
  /** Ends them all: what was not written ends as not executed, what was written as unknown. */
  abort(why: string): void
}

export interface HeldCall {
  readonly call: ClaimedCall
  readonly lease: HeldLease
}

interface RunningCall extends HeldCall {
  readonly abort: CallAbort
}

export function createRunningCalls(options: {
  readonly registry: TargetRegistry
  readonly clock: Clock
  readonly leaseMs: number
  readonly counters: Counting
  readonly slots: Slots
  /** Told of each answer, late ones included. */
  readonly onResult: (result: AttemptResult) => void
}): RunningCalls {
  const { registry, clock, leaseMs, counters, slots, onResult } = options
  const running = new Map<string, RunningCall>()
  /** When they were all looked at, and how long after it no renewal is due. */
  let lookedAt = instantOf(clock)
  let quietMs = Number.POSITIVE_INFINITY

  /** Asked every turn: all are looked at only once the quiet time is over. It may end too early, never too late. */
  function renewalDueInMs(): number {
    if (running.size === 0) return Number.POSITIVE_INFINITY
    const now = instantOf(clock)
    const leftMs = quietMs - longestSince(lookedAt, now)
    if (leftMs > 0) return leftMs
    lookedAt = now
    quietMs = Number.POSITIVE_INFINITY
    for (const { lease } of running.values()) quietMs = Math.min(quietMs, lease.renewInMs())
    return quietMs
  }

  function start(call: ClaimedCall, grantedAt: Instant): void {
    const target = registry.at(call.target, call.targetVersion, call.description)
    const timeoutMs = target?.policy.timeoutMs ?? 0
    const lease = holdLease({ clock, grantedAt, leaseMs, timeoutMs, writeWithinMs: call.writeWithinMs })
    const abort = createCallAbort()
    const slot = slots.take(call.target)
    const key = keyOf(call)
    running.set(key, { call, lease, abort })
    quietMs = Math.min(quietMs, firstRenewalMs(leaseMs, timeoutMs) - Math.max(0, longestSince(grantedAt, lookedAt)))
    const context = { target, lease, signal: abort.signal, wallNow: () => clock.wallNow(), onLate: onResult }
    void makeAttempt(call, context).then((result) => {
      running.delete(key)
      slots.release(slot)
      if (lease.wasRefused) counters.callsKeptBack++
      onResult(result)
    })
  }

  return {
    get size() {
      return running.size
    },
    start,
    renewalDueInMs,
    dueForRenewal: () =>
      renewalDueInMs() > 0 ? [] : [...running.values()].filter(({ lease }) => lease.renewInMs() <= 0),
    lose: (calls) => {
      for (const call of calls) running.get(keyOf(call))?.lease.lost()
    },
    abort: (why) => {
      for (const { abort } of running.values()) abort.abort(new Error(why))
    },
  }
}

function keyOf(call: { readonly requestId: number; readonly attempt: number }): string {
  return `${call.requestId}:${call.attempt}`
}
