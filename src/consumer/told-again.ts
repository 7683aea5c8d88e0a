// A rate that is as high as what the API allows is refused again and again, and each wait begins a ramp: less is called than at a lower
// rate. Nobody sees that from one wait, so whoever meets several in a while says what helps.
import type { Clock } from '../core/clock.ts'
import type { Buckets } from '../core/policy.ts'
import type { ClaimTarget } from '../store/turn.ts'

/** An API that tells a second at a time must not fill the log. */
const NEWS_AFTER_MS = 60_000
const WITHIN_MS = 600_000
const OFTEN = 3

export interface ToldAgain {
  /** The target was told to wait, and the log has not said so lately. */
  isNews(target: string): boolean
  /** The target was told to wait. @returns how often lately, where that is worth a word; null: not, or the word was said lately. */
  hear(target: string): { readonly times: number; readonly withinMs: number } | null
}

export function createToldAgain({
  clock,
  targets,
  buckets,
}: {
  readonly clock: Pick<Clock, 'monotonicNow'>
  readonly targets: readonly ClaimTarget[]
  readonly buckets: Buckets
}): ToldAgain {
  const rated = new Set(
    targets
      .filter(({ policy: { limits } }) => limits.rate !== null || buckets[limits.bucket ?? '']?.rate)
      .map(({ name }) => name),
  )
  const toldAt = new Map<string, readonly number[]>()
  const saidAt = new Map<string, number>()
  const newsAt = new Map<string, number>()

  return {
    isNews: (target) => {
      const now = clock.monotonicNow()
      const last = newsAt.get(target)
      if (last !== undefined && now - last < NEWS_AFTER_MS) return false
      newsAt.set(target, now)
      return true
    },
    hear: (target) => {
      if (!rated.has(target)) return null
      const now = clock.monotonicNow()
      const lately = [...(toldAt.get(target) ?? []).filter((at) => now - at < WITHIN_MS), now]
      toldAt.set(target, lately)
      const said = saidAt.get(target)
      if (lately.length < OFTEN || (said !== undefined && now - said < WITHIN_MS)) return null
      saidAt.set(target, now)
      return { times: lately.length, withinMs: now - (lately[0] ?? now) }
    },
  }
}
