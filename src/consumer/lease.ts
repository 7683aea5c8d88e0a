// A lease as its holder sees it: never trusted for longer than the larger of the two clocks allows.
import { type Clock, type Instant, instantOf, longestSince } from '../core/clock.ts'

export interface HeldLease {
  /** Whether the bytes may leave now: null, or why not. Asked synchronously with the write. `neededMs`: default the whole call's. */
  refuseWrite(neededMs?: number): string | null
  /** When it should be renewed next, in milliseconds from now; 0 or less: now. */
  renewInMs(): number
  renewed(at: Instant): void
  lost(): void
  written(): void
  /** Whether a write was refused: the call did not leave. */
  readonly wasRefused: boolean
}

const SHORTEST_RENEWAL_MS = 200

/** How long after its grant a lease whose call is not yet written is to be renewed. */
export function firstRenewalMs(leaseMs: number, timeoutMs: number): number {
  return Math.max(leaseMs - timeoutMs, SHORTEST_RENEWAL_MS) / 2
}

export interface LeaseOptions {
  readonly clock: Clock
  readonly grantedAt: Instant
  readonly leaseMs: number
  /** The call's whole deadline: what must be left when its first byte leaves. */
  readonly timeoutMs: number
  /** Counted from the claim, however often the lease is renewed: a key's window, or a deadline. Null: the lease alone says. */
  readonly writeWithinMs: number | null
}

export function holdLease(options: LeaseOptions): HeldLease {
  const { clock, leaseMs, timeoutMs, writeWithinMs } = options
  let grantedAt = options.grantedAt
  let isLost = false
  let isWritten = false
  let wasRefused = false
  const elapsedMs = () => longestSince(grantedAt, instantOf(clock))

  function whyNot(neededMs: number): string | null {
    if (isLost) return 'lease_lost'
    const sinceClaimMs = longestSince(options.grantedAt, instantOf(clock))
    if (writeWithinMs !== null && sinceClaimMs > writeWithinMs) return 'too_late'
    return leaseMs - elapsedMs() < neededMs ? 'lease_too_short' : null
  }

  return {
    refuseWrite: (neededMs = timeoutMs) => {
      const why = whyNot(neededMs)
      wasRefused ||= why !== null
      return why
    },
    get wasRefused() {
      return wasRefused
    },
    // A call that is not yet written needs its whole deadline in front of it; a written one only needs to stay ours.
    renewInMs: () =>
      isLost
        ? Number.POSITIVE_INFINITY
        : (isWritten ? Math.max(leaseMs, SHORTEST_RENEWAL_MS) / 2 : firstRenewalMs(leaseMs, timeoutMs)) - elapsedMs(),
    renewed: (at) => {
      grantedAt = at
    },
    lost: () => {
      isLost = true
    },
    written: () => {
      isWritten = true
    },
  }
}
