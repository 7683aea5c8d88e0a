// Of calls whose bytes left, by when they were claimed: in no window more than `burst` and what the rate gives in it (README, "How
// many").
import type { Kind } from './api-model.ts'
import { type Rate, type Regime, scopesOf } from './regimes.ts'

export interface RateWatch {
  /** `claimedAt` in forward time. @returns what is wrong. */
  onWrite(kind: Kind, claimedAt: number): readonly string[]
  forget(): void
}

export function watchRates(regime: Regime): RateWatch {
  const claims = new Map<string, number[]>()
  return {
    onWrite: (kind, claimedAt) =>
      scopesOf(regime, kind).flatMap(({ kind: scope, name, limit }) => {
        if (limit.rate === undefined) return []
        const known = [...(claims.get(`${scope} ${name}`) ?? []), claimedAt].sort((a, b) => a - b)
        claims.set(`${scope} ${name}`, known)
        return isTooFast(known, limit.rate) ? [`${scope} ${name} was called faster than its rate`] : []
      }),
    forget: () => claims.clear(),
  }
}

function isTooFast(claims: readonly number[], { count, per, burst }: Rate): boolean {
  return claims.some((from, first) =>
    claims.slice(first).some((to, more) => more + 1 > burst + (count * (to - from)) / per + 1e-6),
  )
}
