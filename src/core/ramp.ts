// How calls begin again after a wait that an API told: few at first, then more and more, all workers together. Pure arithmetic on
// what is stored: the end of the wait, how long the ramp is, and how many calls have begun since; the claim transaction charges it.
import type { Limits } from './policy.ts'

/** A tenth of the limit in the first quarter of a ramp, then two, four and eight tenths; after that the limit alone holds. */
const STEPS = 4
const FIRST_SHARE = 0.1

/** What a worker calls at once by default stands for the limit of a target that has none. */
const UNLIMITED_CONCURRENCY = 64

/** What the limit allows in one step, in calls. A concurrency says nothing of time, and counts as so many calls in a step. */
function callsAStep({ rate, concurrency }: Limits, stepMs: number): number {
  if (rate === null) return concurrency ?? UNLIMITED_CONCURRENCY
  return (rate.count * stepMs) / rate.perMs
}

/** What part of the limit may be used, 0 to 1, `sinceMs` after the end of the wait. */
export function rampShare(rampMs: number, sinceMs: number): number {
  return sinceMs >= rampMs ? 1 : FIRST_SHARE * 2 ** Math.floor((sinceMs * STEPS) / rampMs)
}

/** How many calls may have begun in all, `sinceMs` after the end of the wait: evenly within a step, and one at once. */
export function rampAllowance(limits: Limits, rampMs: number, sinceMs: number): number {
  if (sinceMs >= rampMs) return Number.POSITIVE_INFINITY
  const stepMs = rampMs / STEPS
  const step = Math.floor(sinceMs / stepMs)
  const steps = 2 ** step * (1 + sinceMs / stepMs - step) - 1
  // What counts as whole despite how shares are rounded.
  return Math.max(1, Math.floor(callsAStep(limits, stepMs) * FIRST_SHARE * steps + 1e-9))
}

/** How many ms after the end of the wait the allowance is more than `begun` calls. */
export function rampOpensAfterMs(limits: Limits, rampMs: number, begun: number): number {
  if (begun < 1) return 0
  const stepMs = rampMs / STEPS
  const doublings = (begun + 1) / (callsAStep(limits, stepMs) * FIRST_SHARE) + 1
  const step = Math.floor(Math.log2(doublings))
  return Math.ceil(Math.min(rampMs, stepMs * (step + doublings / 2 ** step - 1) - 1e-6))
}
