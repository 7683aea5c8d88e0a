// What goes into a turn and what comes out of it: one transaction, whatever the concurrency. Instants are UTC epoch ms.
import type { SteadyTime } from '../core/clock.ts'
import type { Buckets, PolicyOf, TargetPolicy } from '../core/policy.ts'
import type { PreparedCall } from '../core/prepared-call.ts'
import type { Reconciliation } from '../core/reconciliation.ts'
import type { AttemptResult } from '../core/settlement.ts'
import type { TaskState } from '../core/task-state.ts'
import type { Tracking } from '../core/tracking.ts'

/** One life of one worker: `name` is the operator's, `boot` is random for each start. */
export interface WorkerLife {
  readonly name: string
  readonly boot: string
}

/** What the claim hands to `prepare`, inside the transaction. */
export interface Claimable {
  readonly requestId: number
  readonly target: string
  readonly payload: string
  readonly logicalHash: string
  readonly priority: number
  readonly generation: number
}

export type Preparation =
  | {
      readonly kind: 'prepared'
      readonly key: string | null
      readonly call: PreparedCall
      readonly targetVersion: string
    }
  /** The payload does not fit the target's description: the request is dead without a call. */
  | { readonly kind: 'dead'; readonly reason: string; readonly note: string }

export interface ClaimTarget {
  readonly name: string
  readonly policy: TargetPolicy
}

/** A call that the turn's commit allows: its `invoking` row is on disk. */
export interface ClaimedCall extends Claimable {
  readonly targetVersion: string
  readonly attempt: number
  readonly nonce: string
  readonly key: string | null
  readonly prepared: PreparedCall
  /** By the wall; its holder counts `leaseMs` from the turn by both clocks. */
  readonly leaseUntil: number
  /** The bytes leave within this time of the claim (of a replay, its key's window; else, its deadline), or not at all; null: the lease alone says. */
  readonly writeWithinMs: number | null
  /** The description that froze it, where that was not this turn's `prepare`. */
  readonly description: string | null
}

/** A submitted row whose task this worker may ask about until its lease ends. */
export interface TrackedTask {
  readonly row: TaskState
  /** The description that froze its call. */
  readonly description: string | null
}

/** A row in doubt that this worker may look into until its lease ends. */
export interface Investigation extends TrackedTask {
  readonly payload: string
  readonly prepared: PreparedCall | null
}

/** What one target has of a worker's slots. */
export interface Standing {
  /** How many more calls of it may begin. */
  readonly room: number
  /** Rises with each call that began, over all targets: who waited longest has the lowest. */
  readonly lastTaken: number
}

export interface TurnInput {
  /** Wall clock, asked once, inside the transaction: waiting for the lock is no part of anybody's lease. */
  readonly now: () => number
  readonly worker: WorkerLife
  readonly leaseMs: number
  /** Answers since the last turn, late ones included. */
  readonly results: readonly AttemptResult[]
  /** Calls in flight whose lease is to be renewed. */
  readonly renewals: readonly { readonly requestId: number; readonly attempt: number; readonly nonce: string }[]
  readonly reconciliations: readonly Reconciliation[]
  readonly trackings: readonly Tracking[]
  readonly claim: {
    readonly slots: number
    readonly targets: readonly ClaimTarget[]
    /** Sizes of the buckets that targets share; of one that is not named here, none. */
    readonly buckets: Buckets
    /** How each target stands with this worker, for its fair share of the slots. */
    readonly standingOf: (target: string) => Standing
    /** Of many targets, where the last turn ended its look at them (`TurnResult.lookedThrough`); null: nowhere. */
    readonly lookFrom: string | null
    readonly prepare: (request: Claimable) => Preparation
  }
  /** Rows of the claim's targets to look into: doubt first, then submitted tasks that are tracked. */
  readonly check: {
    readonly slots: number
    /** How many rows of a target at most; of one that is not named here, as many as there are slots. */
    readonly room: ReadonlyMap<string, number>
  }
  /** Of every target that is described, served or not: late answers may be anybody's. */
  readonly policyOf: PolicyOf
  /** For windows; asked inside the transaction. */
  readonly steady: SteadyTime
  readonly random: () => number
}

export interface SettledRow {
  readonly requestId: number
  readonly attempt: number
  readonly state: TaskState['state']
  readonly target: string
  readonly outcome: string
  readonly reason: string | null
  /** False: the answer found its place taken and changed nothing. */
  readonly applied: boolean
  /** The plain happy path, of which no event is written. */
  readonly isPlain?: boolean
}

/** What this turn's answers did to the calls of a target, or of all that share its bucket. */
export interface StopNews {
  readonly target: string
  readonly kind: 'breaker_opened' | 'probe_failed' | 'breaker_closed' | 'told_to_wait' | 'paused'
  /** The failure that opened the breaker, the header that told, or how the credentials were refused. */
  readonly why: string
  /** Epoch ms, until when nobody calls; null: calls begin again, or of a pause: a person ends it. */
  readonly until: number | null
}

export interface TurnResult {
  readonly settled: readonly SettledRow[]
  readonly stops: readonly StopNews[]
  /** Renewals that found their lease gone: those calls must not start any more. */
  readonly lost: readonly { readonly requestId: number; readonly attempt: number }[]
  readonly calls: readonly ClaimedCall[]
  readonly investigations: readonly Investigation[]
  readonly reconciled: readonly SettledRow[]
  /** Submitted rows that this worker may ask about until its lease ends. */
  readonly toTrack: readonly TrackedTask[]
  readonly tracked: readonly SettledRow[]
  /** The earliest at which this worker has something to do without being told; null: never. */
  readonly nextDueAt: number | null
  /** Something may be left for another turn right away: a bound was met of leases that ended, promotions, deadlines or moves of ranks. */
  readonly more: boolean
  /** The claim ended at its bound: the next free slot may find a request ready. */
  readonly moreReady: boolean
  /** The last target that was looked at for work, where others have some; null: all were. */
  readonly lookedThrough: string | null
  /** What one step of priority is worth in waiting, of each target whose queue ages. */
  readonly agingMs: ReadonlyMap<string, number>
}
