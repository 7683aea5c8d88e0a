// How many more questions the targets bear that say how much they do. A claim counts their calls and no questions: of these there are
// at most as many at once as calls, and few where there is a rate.
import type { Buckets, Limits } from '../core/policy.ts'
import type { ClaimTarget } from '../store/turn.ts'

/** This many questions go on beside however many calls. */
export const CHECKS_BESIDE_CALLS = 16

export interface CheckRoomOptions {
  readonly targets: readonly ClaimTarget[]
  readonly buckets: Buckets
  /** Questions to a target that run or stand in line. */
  readonly openTo: (target: string) => number
}

/** @returns what asks for the room of those that have limits, by name. */
export function createCheckRoom({ targets, buckets, openTo }: CheckRoomOptions): () => ReadonlyMap<string, number> {
  const limited = targets.flatMap(({ name, policy: { limits } }) => {
    const shared = limits.bucket === undefined ? undefined : buckets[limits.bucket]
    const atOnce = Math.min(questionsAtOnce(limits), questionsAtOnce(shared ?? limits))
    return atOnce === Number.POSITIVE_INFINITY ? [] : [{ name, atOnce }]
  })
  return () => new Map(limited.map(({ name, atOnce }) => [name, Math.max(0, atOnce - openTo(name))]))
}

function questionsAtOnce({ concurrency, rate }: Limits): number {
  return Math.min(
    concurrency ?? Number.POSITIVE_INFINITY,
    rate === null ? Number.POSITIVE_INFINITY : CHECKS_BESIDE_CALLS,
  )
}
