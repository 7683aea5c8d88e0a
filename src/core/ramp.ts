// How calls begin again after a wait that an API told: few at first, then more and more, all workers together. Pure arithmetic on
// two stored numbers, the end of the wait and how many calls have begun since; the claim transaction charges it.
import type { RateLimit } from './policy.ts'

const STEP_MS = 6000
const STEPS = 4
const FIRST_SHARE = 0.1

/** A tenth of the limit in the first six seconds, then two, four and eight tenths; after that the limit alone holds. */
export const RAMP_MS = STEPS * STEP_MS

/** What a worker calls at once by default stands for the limit of a target that has none. */
const UNLIMITED_CONCURRENCY = 64

interface Limits {
  readonly concurrency: number | null
  readonly rate: RateLimit | null
}

/** What the limit allows in six seconds. A concurrency says nothing of time, and counts as so many calls in a step. */
function callsAStep({ rate, concurrency }: Limits): number {
  if (rate === null) return concurrency ?? UNLIMITED_CONCURRENCY
  return (rate.count * STEP_MS) / rate.perMs
}

/** What part of the limit may be used, `sinceMs` after the end of the wait. */
export function rampShare(sinceMs: number): number {
  return sinceMs >= RAMP_MS ? 1 : FIRST_SHARE * 2 ** Math.floor(sinceMs / STEP_MS)
}

/** How many calls may have begun in all, `sinceMs` after the end of the wait: evenly within a step, and one at once. */
export function rampAllowance(limits: Limits, sinceMs: number): number {
  if (sinceMs >= RAMP_MS) return Number.POSITIVE_INFINITY
  const step = Math.floor(sinceMs / STEP_MS)
  const share = FIRST_SHARE * (2 ** step * (1 + (sinceMs - step * STEP_MS) / STEP_MS) - 1)
  // What counts as whole despite how shares are rounded.
  return Math.max(1, Math.floor(callsAStep(limits) * share + 1e-9))
}

/** When, after the end of the wait, the allowance is more than `begun`. */
export function rampOpensAfterMs(limits: Limits, begun: number): number {
  if (begun < 1) return 0
  const doublings = (begun + 1) / (callsAStep(limits) * FIRST_SHARE) + 1
  const step = Math.floor(Math.log2(doublings))
  return Math.min(RAMP_MS, Math.ceil(STEP_MS * (step + doublings / 2 ** step - 1) - 1e-6))
}
