// Where a request stands in the lane of its target: the smallest rank goes first. By priority alone a rank is minus the priority.
// With aging one step of priority is worth so much waiting, and the rank is the due time less what the priority is worth, so that
// nothing has to be rewritten while requests wait. Which of the two a rank is can be told by its size.
import { MAX_PRIORITY } from './limits.ts'

/** Added to every rank by age: whatever the due time and the priority, it is larger than any rank by priority, and still exact. */
export const AGED_FROM = 100_000_000_000_000
/** The longest that one step of priority may be worth. */
export const MAX_AGING_MS = 30 * 86_400_000

/** Ranks by priority are at most this. */
export const HIGHEST_PLAIN_RANK = MAX_PRIORITY

/**
 * Minus the priority that a rank comes to at `now`, so that lanes of different targets can be compared, whatever each is ranked by.
 * @param agingMs of its target; null where priorities alone count.
 */
export function orderOf(rank: number, agingMs: number | null, now: number): number {
  return rank <= HIGHEST_PLAIN_RANK || agingMs === null ? rank : (rank - AGED_FROM - now) / agingMs
}
