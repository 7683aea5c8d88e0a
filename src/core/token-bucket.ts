// A token bucket as arithmetic on two stored numbers; the claim transaction charges it.
import { wasSetBack } from './clock.ts'
import type { RateLimit } from './policy.ts'

/** What a bucket held. */
export interface Tokens {
  /** Calls; a part of one is a token that is still being earned. */
  readonly tokens: number
  /** UTC epoch ms. */
  readonly at: number
}

/**
 * A clock that went back adds nothing; one that was set back by more is where the bucket goes on from.
 * @param stored null: never used, and full. @param now UTC epoch ms.
 */
export function refill(stored: Tokens | null, rate: RateLimit, now: number): Tokens {
  if (stored === null) return { tokens: rate.burst, at: now }
  const earned = (Math.max(0, now - stored.at) * rate.count) / rate.perMs
  return {
    tokens: Math.min(rate.burst, stored.tokens + earned),
    at: wasSetBack(stored.at, now) ? now : Math.max(now, stored.at),
  }
}

/**
 * What may be given back of a token that was taken so long ago and not used: had it stayed, a full bucket would have lost meanwhile
 * what this one has earned. @returns a part of a token, 0 to 1.
 */
export function tokenLeft(rate: RateLimit, sinceMs: number): number {
  return Math.min(1, Math.max(0, 1 - (Math.max(0, sinceMs) * rate.count) / rate.perMs))
}

/** When the next whole token is there; UTC epoch ms. */
export function nextTokenAt({ tokens, at }: Tokens, rate: RateLimit): number {
  return at + Math.ceil((Math.max(0, 1 - tokens) * rate.perMs) / rate.count)
}
