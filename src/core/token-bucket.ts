// A token bucket as arithmetic on two stored numbers; the claim transaction charges it.
import { wasSetBack } from './clock.ts'
import type { RateLimit } from './policy.ts'

export interface Bucket {
  readonly tokens: number
  readonly at: number
}

/** A clock that went back adds nothing; one that was set back by more is where the bucket goes on from. */
export function refill(bucket: Bucket | null, rate: RateLimit, now: number): Bucket {
  if (bucket === null) return { tokens: rate.burst, at: now }
  const earned = (Math.max(0, now - bucket.at) * rate.count) / rate.perMs
  return {
    tokens: Math.min(rate.burst, bucket.tokens + earned),
    at: wasSetBack(bucket.at, now) ? now : Math.max(now, bucket.at),
  }
}

/**
 * What may be given back of a token that was taken so long ago and not used: had it stayed, a full bucket would have lost meanwhile
 * what this one has earned.
 */
export function tokenLeft(rate: RateLimit, sinceMs: number): number {
  return Math.min(1, Math.max(0, 1 - (Math.max(0, sinceMs) * rate.count) / rate.perMs))
}

/** When the next whole token is there. */
export function nextTokenAt(bucket: Bucket, rate: RateLimit): number {
  return bucket.at + Math.ceil((Math.max(0, 1 - bucket.tokens) * rate.perMs) / rate.count)
}
