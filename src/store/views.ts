// What people are shown of a store, and what they say to it.
import type { OpenBreaker } from '../core/breaker.ts'
import type { Evidence } from '../core/outcome.ts'
import type { Dedupe, WaitScope } from '../core/policy.ts'
import type { PreparedCall } from '../core/prepared-call.ts'
import type { QueuedState, RequestState, TaskState } from '../core/task-state.ts'
import type { TimeLineEntry } from './time-line.ts'

/** One request in short. Instants are UTC epoch ms. */
export interface RequestView {
  readonly requestId: number
  readonly target: string
  readonly state: RequestState
  readonly taskId: string | null
  readonly logicalHash: string
  readonly priority: number
  /** Retry budget used. */
  readonly attempts: number
  /** Number of the newest call; 0: never called. */
  readonly attempt: number
  /** Part of the idempotency key: rises when a call must go out under a new one. */
  readonly generation: number
  /** Rises with every transition: for `ifVersion`. */
  readonly version: number
  /** When it is to be called; null where it is not queued. */
  readonly dueAt: number | null
  /** Past it, it is not called any more where it surely never happened; null: it has no deadline. Epoch ms. */
  readonly expiresAt: number | null
  readonly createdAt: number
  readonly updatedAt: number
  /** Of `unknown` and `held` requests: since its first call that may have left; else null. */
  readonly inDoubtSince: number | null
  /** Why it is held, dead or waiting: a short stable word. Null while it is called. */
  readonly reason: string | null
  /** The same with what the last call met. */
  readonly lastError: string | null
  /** The words of `resolve` that fit a request in doubt as it is; else none. */
  readonly resolutions: readonly Resolution['kind'][]
  /** One request of the same target and key is called at a time. Null: without one, or submitted, with which it leaves. */
  readonly orderingKey: string | null
  /** Groups of one target take turns at being called. Null: without one, or submitted, with which it leaves. */
  readonly group: string | null
  /** Of those with its ordering key the one that goes first; null: it waits for none. */
  readonly behind: HeadOfKey | null
}

/** The request that has the turn of an ordering key, as it is now. */
export interface HeadOfKey {
  readonly requestId: number
  readonly state: RequestState
  /** As `RequestView.reason` has it. */
  readonly reason: string | null
}

/** An ordering key whose turn is with a request that is in doubt, held or dead: no other of it is called meanwhile. */
export interface StuckKey {
  readonly target: string
  readonly orderingKey: string
  /** Epoch ms since which it does not go on. */
  readonly since: number
  /** How many wait behind it. */
  readonly followers: number
  /** Whose turn it is. */
  readonly head: RequestView
}

/** Which requests are listed. */
export interface RequestFilter {
  readonly state?: RequestState
  readonly target?: string
  /** As `RequestView.reason` has it. */
  readonly reason?: string
  /** Only those of this key that are still owed, or dead and in the way of others. */
  readonly orderingKey?: string
  /** Only those behind a request of their ordering key that is in doubt, held or dead. */
  readonly stuck?: boolean
  /** Only those of this group that are still owed. */
  readonly group?: string
  readonly limit: number
  /** Only those with larger ids. */
  readonly afterId?: number
}

/** One line of a time line: every change but the plain success is one. */
export interface EventView {
  readonly eventId: number
  readonly requestId: number | null
  readonly target: string | null
  /** Epoch ms. */
  readonly at: number
  readonly kind: string
  readonly from: string | null
  readonly to: string | null
  readonly attempt: number | null
  readonly actor: string
  readonly reason: string | null
  readonly detail: unknown
}

/** `eventId` null: a submission on the plain happy path, told by a worker of this process and stored nowhere as an event. */
export interface RequestEvent extends Omit<EventView, 'eventId'> {
  readonly eventId: number | null
}

/** Everything that is known of one request. */
export interface RequestDetail extends RequestView {
  /** Null where it has left with the settlement and is not kept. */
  readonly payload: unknown
  readonly dedupe: Dedupe | null
  readonly taskState: TaskState | null
  /** The frozen call, while the request is in doubt. */
  readonly prepared: (PreparedCall & { readonly fingerprint: string }) | null
  readonly events: readonly EventView[]
  /** The whole story, the plain success included. */
  readonly timeLine: readonly TimeLineEntry[]
  readonly orphans: readonly OrphanView[]
  /** Its place among those of its ordering key; null where it waits for none and none waits for it. */
  readonly line: PlaceInLine | null
  /** Of its target, by a person or for its credentials; null where there is none. */
  readonly pause: Pause | null
  /** Of its target and of the bucket that it shares. */
  readonly waits: readonly TimedPause[]
}

/** Where a request stands among those of its ordering key. */
export interface PlaceInLine {
  /** 1: it has the turn. */
  readonly place: number
  /** How many of the key wait for whichever has the turn. */
  readonly waiting: number
}

/** With what its outlook is judged by, of the same instant. */
export interface StoredRequest extends RequestDetail {
  /** That its call was made with. */
  readonly description: string | null
  readonly highWaterAt: number
  readonly clockAheadMs: number
}

/** Why a target is not called. */
export interface Pause {
  /** Epoch ms. */
  readonly at: number
  readonly by: string | null
  readonly reason: string | null
}

/** Why a pause ends by itself: the API told how long to wait, or calls failed one after the other. */
export type PauseCause = 'told_to_wait' | 'breaker'

/**
 * A pause that ends by itself: the API told to wait, or its calls failed. It is for all workers; after it calls begin again, few at first. Instants are
 * UTC epoch ms.
 */
export interface TimedPause {
  /** Whom it stops: a target, or all that share a bucket. */
  readonly scope: WaitScope
  readonly name: string
  readonly cause: PauseCause
  /** The header and its value, `retry-after: 900`; or the failure that opened the breaker. */
  readonly toldBy: string
  readonly since: number
  /** No call begins earlier. */
  readonly until: number
  /** From here on the limits alone hold. */
  readonly rampUntil: number
  /** Calls that have begun since `until`. */
  readonly begun: number
}

/** A breaker that is open: no call but one probe at a time. Instants are UTC epoch ms. */
export interface OpenBreakerView extends Omit<OpenBreaker, 'kind'> {}

/** A task that an API made beyond the one that its request was settled on. */
export interface OrphanView {
  readonly orphanId: number
  readonly requestId: number
  readonly target: string
  readonly attempt: number
  readonly taskId: string
  /** Epoch ms. */
  readonly foundAt: number
  readonly evidence: Evidence | null
}

/** An orphan with the request that it is beyond; null where that was purged. */
export interface ListedOrphan extends OrphanView {
  readonly request: RequestView | null
}

/** How a person's word on an orphan ended; nothing was written but where it is `applied`. */
export type OrphanResult =
  /** It is none any more; its request as it is now. */
  | { readonly kind: 'applied'; readonly orphan: ListedOrphan }
  /** Dealt with before. */
  | { readonly kind: 'unchanged' }
  | { readonly kind: 'not_found' }
  /** `why` is one clause for people. */
  | { readonly kind: 'refused'; readonly orphan: ListedOrphan; readonly why: string }
  | { readonly kind: 'version_changed'; readonly orphan: ListedOrphan }

/** One target in numbers. */
export interface TargetStatus {
  readonly states: Readonly<Partial<Record<RequestState, number>>>
  readonly paused: boolean
  /** Epoch ms. */
  readonly pausedAt: number | null
  readonly pausedBy: string | null
  readonly pauseReason: string | null
  /** Requests behind one of their ordering key that is in doubt, held or dead; each counts among `states` as well. */
  readonly stuck: number
  /** Dead ones whose deadline was over before they happened. */
  readonly expired: number
  /** Of ready requests, the longest wait of each priority, the highest first. */
  readonly oldestReady: readonly PriorityWait[]
  readonly groups: GroupsStatus
  /** Its own, and those of the bucket that it shares. */
  readonly waits: readonly TimedPause[]
  /** Null: closed. */
  readonly breaker: OpenBreakerView | null
  /** Requests that were told to wait for longer than `rateLimit.maxWaitMs`; they go on by themselves. */
  readonly parked: number
  /** When the first of them goes on; epoch ms. */
  readonly parkedUntil: number | null
}

/** Groups that have something ready. */
export interface GroupsStatus {
  /** How many have. */
  readonly ready: number
  /** Those that have most, the first of them: some three. */
  readonly longest: readonly { readonly group: string; readonly ready: number }[]
  /** `longest` counts of each ordering key the first alone, and others stand behind. */
  readonly headsOnly: boolean
  /** Whose ready request has been due for longest, and since when (epoch ms); the group is null for those without one. */
  readonly oldest: { readonly group: string | null; readonly since: number } | null
}

/** Of the ready requests of one priority. */
export interface PriorityWait {
  readonly priority: number
  /** Epoch ms since which the request has been due that waits longest. */
  readonly since: number
}

/** Of a target that the store knows nothing of. */
export const UNSEEN_TARGET: TargetStatus = {
  states: {},
  paused: false,
  pausedAt: null,
  pausedBy: null,
  pauseReason: null,
  expired: 0,
  oldestReady: [],
  groups: { ready: 0, longest: [], headsOnly: false, oldest: null },
  waits: [],
  breaker: null,
  parked: 0,
  parkedUntil: null,
  stuck: 0,
}

/** The whole store in numbers. */
export interface StoreStatus {
  readonly states: Readonly<Partial<Record<RequestState, number>>>
  readonly targets: Readonly<Record<string, TargetStatus>>
  /** Dead ones whose deadline was over before they happened. */
  readonly expired: number
  /** Epoch ms since which the oldest ready request waits. */
  readonly oldestReady: number | null
  /** Epoch ms since which the oldest request is in doubt. */
  readonly oldestUnknown: number | null
  /** Tasks beyond those that requests were settled on, not dealt with. */
  readonly orphans: number
  /** Ordering keys that do not go on, the longest first; at most ten. */
  readonly stuckKeys: readonly StuckKey[]
}

/** How a person's word ended; nothing was written but where it is `applied`. */
export type OperatorResult =
  | { readonly kind: 'applied'; readonly view: RequestView }
  /** Already as asked: nothing was written. */
  | { readonly kind: 'unchanged'; readonly view: RequestView }
  | { readonly kind: 'not_found' }
  /** The state (or its version) does not fit; `why` is one clause for people. */
  | { readonly kind: 'refused'; readonly view: RequestView; readonly why: string }
  | { readonly kind: 'version_changed'; readonly view: RequestView }

/** What a word that leads to a call says of the request's deadline. */
export interface NewDeadline {
  /** Epoch ms; null: none. Absent: as it is, and where that is over the word is refused. */
  readonly expiresAt?: number | null | undefined
}

/** What a person says of a request in doubt (README, "Doubt"). */
export type Resolution =
  /** It happened: this is its task. */
  | { readonly kind: 'task_id'; readonly taskId: string }
  /** It did not: back in the queue under the same key. */
  | { readonly kind: 'not_executed' }
  /** Call again under a new key, whatever the last one did. */
  | ({ readonly kind: 'retry_accepting_duplicates' } & NewDeadline)
  /** Leave it, with its doubt on record. */
  | { readonly kind: 'abandon' }

export interface OperatorWord {
  readonly now: number
  readonly actor: string
  readonly note: string | null
  /** The version that the person saw; null: whatever it is now. */
  readonly ifVersion: number | null
}

/** One of many that a person's word is for, as it was when it was looked at. */
export interface SeenRequest {
  readonly requestId: number
  readonly version: number
}

/** Which queued requests a word is for. */
export interface QueuedFilter {
  /** Absent: both. */
  readonly state?: QueuedState
  readonly target?: string
  readonly reason?: string
  readonly group?: string
}

/** A person's word that many requests can be given. */
export type Saying =
  | { readonly word: 'resolve'; readonly resolution: Resolution; readonly force: boolean }
  | ({ readonly word: 'retry' } & NewDeadline)
  | { readonly word: 'reprioritize'; readonly priority: number }
  | { readonly word: 'cancel' }

/** What a store says of itself. */
export interface StoreFacts {
  readonly engine: 'sqlite' | 'postgres'
  /** Path or URL without credentials. */
  readonly location: string
  /** A path beside which this store's workers may keep files; null where it has no folder. */
  readonly folderPath: string | null
  readonly schemaVersion: number
  /** Random, written at the first open; part of idempotency keys unless the config names another. */
  readonly namespace: string
  /** Random, of this history of the file: part of the fencing token. */
  readonly incarnation: string
  /** The largest steady time that a commit has written, epoch ms. */
  readonly highWaterAt: number
  /** How far steady time is ahead of the wall clock, which was set back so far while somebody saw it. */
  readonly clockAheadMs: number
}
