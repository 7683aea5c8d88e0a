// Waits that the API told (README, "Being told to wait", "Beginning again"): nobody of their scope calls before they are over, and
// then one begins.
import type { Kind } from './api-model.ts'
import type { ForwardTime } from './forward-time.ts'
import { type Limit, type Regime, type Scope, scopesOf, waitScopeOf } from './regimes.ts'

export interface WaitWatch {
  /** A committed answer told the calls of `kind` to wait so much longer. */
  onTold(kind: Kind, leftMs: number): void
  /** @returns what is wrong. */
  onClaim(kind: Kind, requestId: number): readonly string[]
  /** Its bytes leave. @returns what is wrong. */
  onWrite(requestId: number): readonly string[]
  onResume(kind: Kind): void
  forget(): void
}

interface Wait {
  readonly scope: Scope
  over: number
  readonly rampMs: number
  /** Calls that were claimed in the first step after it, and left. */
  begun: number
}

const STEPS = 4
/** Of the limit, in the first step of a ramp. */
const FIRST_SHARE = 0.1
const UNLIMITED_CALLS = 64

export function watchWaits(regime: Regime, time: ForwardTime): WaitWatch {
  const waits = new Map<string, Wait>()
  /** Of a call that is claimed and has not left: the waits whose first step it was claimed in. */
  const claimedAfter = new Map<number, readonly Wait[]>()
  const nameOf = ({ kind, name }: Scope) => `${kind} ${name}`
  const waitsOf = (kind: Kind) => scopesOf(regime, kind).flatMap((scope) => waits.get(nameOf(scope)) ?? [])
  return {
    onTold: (kind, leftMs) => {
      const scope = waitScopeOf(regime, kind)
      const over = Math.max(waits.get(nameOf(scope))?.over ?? 0, time.now() + leftMs)
      waits.set(nameOf(scope), { scope, over, rampMs: regime.care[kind]?.rateLimit.rampMs ?? 0, begun: 0 })
    },
    onClaim: (kind, requestId) => {
      const now = time.now()
      const known = waitsOf(kind)
      const isFirstStep = ({ over, rampMs }: Wait) => now - over < rampMs / STEPS
      claimedAfter.set(requestId, known.filter(isFirstStep))
      return known.flatMap(({ scope, over }) =>
        over > now
          ? [`request ${requestId} is called ${over - now} ms before the wait of ${nameOf(scope)} is over`]
          : [],
      )
    },
    onWrite: (requestId) => {
      const begunAfter = claimedAfter.get(requestId) ?? []
      claimedAfter.delete(requestId)
      return begunAfter.flatMap((wait) => {
        wait.begun++
        const allowed = Math.max(1, Math.floor(callsIn(wait.rampMs / STEPS, wait.scope.limit) * FIRST_SHARE))
        const what = `${wait.begun} calls of ${nameOf(wait.scope)} begin right after its wait, allowed ${allowed}`
        return wait.begun > allowed ? [what] : []
      })
    },
    onResume: (kind) => {
      for (const wait of waitsOf(kind)) wait.over = Math.min(wait.over, time.now())
    },
    forget: () => {
      waits.clear()
      claimedAfter.clear()
    },
  }
}

function callsIn(ms: number, { rate, concurrency }: Limit): number {
  return rate === undefined ? (concurrency ?? UNLIMITED_CALLS) : (rate.count * ms) / rate.per
}
