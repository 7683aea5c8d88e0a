// A token bucket as arithmetic on two stored numbers; the claim transaction charges it.
import type { RateLimit } from './policy.ts'

export interface Bucket {
  readonly tokens: number
  readonly at: number
}

/** A clock that went back adds nothing. */
export function refill(bucket: Bucket | null, rate: RateLimit, now: number): Bucket {
  if (bucket === null) return { tokens: rate.burst, at: now }
  const earned = (Math.max(0, now - bucket.at) * rate.count) / rate.perMs
  return { tokens: Math.min(rate.burst, bucket.tokens + earned), at: Math.max(now, bucket.at) }
}

/** When the next whole token is there. */
export function nextTokenAt(bucket: Bucket, rate: RateLimit): number {
  return bucket.at + Math.ceil((Math.max(0, 1 - bucket.tokens) * rate.perMs) / rate.count)
}
