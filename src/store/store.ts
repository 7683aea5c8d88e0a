// What a store must do, in the words of the turn. Two engines implement it and one conformance suite holds both to it.
// No method waits on anything but the engine; every write is one transaction; time is always a parameter, except that an
// engine with a clock of its own may use that inside the transaction.

import type { Evidence } from '../core/outcome.ts'
import type { Dedupe, TargetPolicy } from '../core/policy.ts'
import type { PreparedCall } from '../core/prepared-call.ts'
import type { Reconciliation } from '../core/reconciliation.ts'
import type { AttemptResult } from '../core/settlement.ts'
import type { EndedState, RequestState, TaskState } from '../core/task-state.ts'
import type { Tracking } from '../core/tracking.ts'

/** One life of one worker: `name` is the operator's, `boot` is random for each start. */
export interface WorkerLife {
  readonly name: string
  readonly boot: string
}

export interface NewRequest {
  readonly target: string
  /** JSON text. */
  readonly payload: string
  readonly logicalHash: string
  /** 32 bytes that the ledger is keyed by: target and logical hash in one. */
  readonly ledgerHash: Uint8Array
  /** 32 bytes over the canonical payload; null where the logical hash already covers it. */
  readonly payloadHash: Uint8Array | null
  readonly priority: number
  readonly dueAt: number | null
  readonly dedupe: Dedupe
}

export type EnqueueResult =
  | { readonly kind: 'inserted'; readonly requestId: number; readonly state: 'ready' | 'scheduled' }
  | {
      readonly kind: 'duplicate'
      readonly requestId: number
      readonly state: RequestState
      readonly taskId: string | null
    }
  | { readonly kind: 'conflict'; readonly requestId: number; readonly state: RequestState }

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
export interface ClaimedCall {
  readonly requestId: number
  readonly target: string
  readonly targetVersion: string
  readonly attempt: number
  readonly nonce: string
  readonly key: string | null
  readonly generation: number
  readonly logicalHash: string
  readonly priority: number
  readonly payload: string
  readonly prepared: PreparedCall
  readonly leaseUntil: number
  /** A replay's bytes leave within this time of the claim, or not at all; null: the lease alone says. */
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
    readonly prepare: (request: Claimable) => Preparation
  }
  /** Rows to look into: doubt first, then submitted tasks that are tracked. */
  readonly check: { readonly slots: number; readonly targets: readonly string[] }
  /** Of every target that is described, served or not: late answers may be anybody's. */
  readonly policyOf: (target: string) => TargetPolicy | undefined
  /** The largest clock this process knows, for windows; asked inside the transaction. */
  readonly latestNow: () => number
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

export interface TurnResult {
  readonly settled: readonly SettledRow[]
  /** Renewals that found their lease gone: those calls must not start any more. */
  readonly lost: readonly { readonly requestId: number; readonly attempt: number }[]
  readonly calls: readonly ClaimedCall[]
  readonly investigations: readonly Investigation[]
  readonly reconciled: readonly SettledRow[]
  /** Submitted rows that this worker may ask about until its lease ends. */
  readonly toTrack: readonly TrackedTask[]
  readonly tracked: readonly SettledRow[]
  /** Earliest instant at which this worker has something to do without being told; null: never. */
  readonly nextDueAt: number | null
  /** Something was left for another turn right away (bounded promotion, expiry or claims). */
  readonly more: boolean
}

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
  readonly createdAt: number
  readonly updatedAt: number
  /** Why it is held, dead or waiting: a short stable word. */
  readonly reason: string | null
  /** The same for people, with what the last call met. */
  readonly lastError: string | null
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
  readonly prepared: PreparedCall | null
  readonly events: readonly EventView[]
  readonly orphans: readonly OrphanView[]
}

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

/** One target in numbers. */
export interface TargetStatus {
  readonly states: Readonly<Partial<Record<RequestState, number>>>
  readonly paused: boolean
  /** Epoch ms. */
  readonly pausedAt: number | null
  readonly pausedBy: string | null
  readonly pauseReason: string | null
}

/** The whole store in numbers. */
export interface StoreStatus {
  readonly states: Readonly<Partial<Record<RequestState, number>>>
  readonly targets: Readonly<Record<string, TargetStatus>>
  /** Epoch ms since which the oldest ready request waits. */
  readonly oldestReady: number | null
  /** Epoch ms since which the oldest request is in doubt. */
  readonly oldestUnknown: number | null
}

/** What still keeps a drain from ending, on the targets asked about. */
export interface DrainStatus {
  /** Rows that are ready, or due within the horizon, and whose target is not paused. */
  readonly queued: boolean
  /** Rows that are invoking, or unknown with their next step within the horizon. */
  readonly inDoubt: boolean
}

/** What another process has changed, as far as a worker cares. */
export interface Change {
  /** Something can be claimed, investigated, promoted or expired right now. */
  readonly work: boolean
  readonly nextDueAt: number | null
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

/** What a person says of a request in doubt (README, "Doubt"). */
export type Resolution =
  /** It happened: this is its task. */
  | { readonly kind: 'task_id'; readonly taskId: string }
  /** It did not: back in the queue under the same key. */
  | { readonly kind: 'not_executed' }
  /** Call again under a new key, whatever the last one did. */
  | { readonly kind: 'retry_accepting_duplicates' }
  /** Leave it, with its doubt on record. */
  | { readonly kind: 'abandon' }

export interface OperatorWord {
  readonly now: number
  readonly actor: string
  readonly note: string | null
  /** The version that the person saw; null: whatever it is now. */
  readonly ifVersion: number | null
}

/** Which ended requests a purge asks for. */
export interface PurgeScope {
  /** Last changed at or before this instant. */
  readonly before: number
  readonly states: readonly EndedState[]
  /** Null: of every target. */
  readonly targets: readonly string[] | null
  /** Those too that a person abandoned in doubt. */
  readonly abandoned: boolean
}

/** Why a row that was asked for stays. */
export type KeptReason = 'inDoubt' | 'tracked' | 'tooRecent' | 'abandoned' | 'orphan'

export interface PurgeBatch {
  readonly purged: Readonly<Partial<Record<EndedState, number>>>
  readonly kept: Readonly<Partial<Record<KeptReason, number>>>
  /** The next batch begins after this request. */
  readonly lastId: number
  /** The highest request there was: for a progress bar, and where the walk ends. */
  readonly highestId: number
  readonly done: boolean
}

export interface PurgeWord {
  readonly now: number
  readonly actor: string
  /** Says what would go, and writes nothing. */
  readonly dryRun: boolean
}

/** How a copy is watched and ended. */
export interface BackupOptions {
  /** Ends the copying; the error is its reason. */
  readonly signal?: AbortSignal
  /** After each step of the copy. */
  readonly onProgress?: (progress: { readonly copiedPages: number; readonly pages: number }) => void
}

/** What a verified copy holds. */
export interface BackupCopy {
  readonly pages: number
  readonly schemaVersion: number
  readonly incarnation: string
  readonly highWaterAt: number
  /** Rows of each table. */
  readonly rows: Readonly<Record<string, number>>
}

export interface LogSize {
  /** Of the files that the engine writes ahead; 0 where it has none of ours to keep. */
  readonly bytes: number
  /** Beyond its bound, and somebody who reads keeps it from shrinking. */
  readonly isHeld: boolean
}

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
  /** The largest instant that any claiming commit has written, epoch ms. */
  readonly highWaterAt: number
}

/** What a commit is of; one of a turn may be of several. */
export type Commit =
  | 'enqueue'
  | 'claim'
  | 'settle'
  | 'sweep'
  | 'describe'
  | 'release'
  | 'retry'
  | 'resolve'
  | 'cancel'
  | 'purge'
  | 'pause'
  | 'resume'

/** Told of each commit, right before and right after it: what tests crash at. A throw before it rolls it back. */
export type StoreProbe = (moment: 'before-commit' | 'after-commit', commit: Commit) => void

/** What we need of a caller's better-sqlite3 `Database`; any copy of it will do. */
export interface CallerConnection {
  readonly open: boolean
  readonly inTransaction: boolean
  readonly readonly: boolean
  /** As better-sqlite3 has it. */
  prepare(sql: string): unknown
  /** As better-sqlite3 has it: a savepoint inside a transaction. */
  transaction(work: () => unknown): unknown
  /** As better-sqlite3 has it. */
  pragma(source: string, options?: { readonly simple?: boolean }): unknown
}

export interface Store {
  facts(): Promise<StoreFacts>
  /**
   * One transaction; results in the order of `requests`. A conflict rolls back none of the others, or with
   * `stopAtConflict` everything: then the last result is the conflict and nothing was written.
   */
  enqueue(
    requests: readonly NewRequest[],
    now: number,
    options?: { readonly stopAtConflict?: boolean },
  ): Promise<readonly EnqueueResult[]>
  /**
   * The same inside the caller's own open transaction, which decides whether it happened. Synchronous where the engine is.
   * @throws OnceishError CONNECTION_UNFIT
   */
  enqueueIn(connection: CallerConnection, request: NewRequest, now: number): EnqueueResult
  turn(input: TurnInput): Promise<TurnResult>
  /**
   * A reader with a memory of its own: null where no other connection has committed since it was last asked. Cheap enough to
   * ask many times a second.
   */
  watchChanges(targets: readonly string[]): (now: number) => Promise<Change | null>
  /** A reader with a memory of its own: whether another connection has committed since it was last asked. */
  watchCommits(): () => Promise<boolean>
  /** Calls `listener` after each commit through this store. */
  onCommit(listener: () => void): () => void
  /** Calls `wake` after each commit of this process that made work. */
  onWork(wake: () => void): () => void
  saveDescriptions(
    targets: readonly { name: string; version: string; description: string }[],
    now: number,
  ): Promise<void>
  /** Ends the leases of investigations and trackings that this worker life will not finish. */
  releaseChecks(worker: WorkerLife, now: number): Promise<void>

  get(requestId: number): Promise<RequestDetail | null>
  list(filter: {
    state?: RequestState
    target?: string
    limit: number
    afterId?: number
  }): Promise<readonly RequestView[]>
  /** Of each request that is there, in no order. */
  viewsOf(requestIds: readonly number[]): Promise<readonly RequestView[]>
  /** In the order of their commits. */
  eventsAfter(eventId: number, limit: number): Promise<readonly EventView[]>
  /** 0 where nothing was ever written. */
  lastEventId(): Promise<number>
  orphans(limit: number): Promise<readonly OrphanView[]>
  status(): Promise<StoreStatus>
  /** `claimedBefore`: younger calls of other workers are theirs to end. */
  drainStatus(targets: readonly string[], horizonAt: number, claimedBefore: number): Promise<DrainStatus>
  /** Rows in doubt in id order, for a dry run: nothing is leased or changed. */
  inDoubt(afterId: number, limit: number): Promise<readonly Investigation[]>

  retry(
    requestId: number,
    word: OperatorWord,
    policyOf: (target: string) => TargetPolicy | undefined,
  ): Promise<OperatorResult>
  /** A call may only follow when the last one can no longer land (`quietMs`); `force` skips that wait. */
  resolve(
    requestId: number,
    resolution: Resolution,
    word: OperatorWord,
    options: { force: boolean; policyOf: (target: string) => TargetPolicy | undefined },
  ): Promise<OperatorResult>
  cancel(requestId: number, word: OperatorWord): Promise<OperatorResult>
  pause(target: string, reason: string | null, actor: string, now: number): Promise<void>
  /** @returns false where it was not paused. */
  resume(target: string, actor: string, now: number): Promise<boolean>

  /**
   * One small step of a walk in id order: reads a bounded slice after `afterId`, and removes what may go in one short
   * transaction whose DELETE says the conditions again. A request goes whole: row, payload, events, and its logical hash
   * is free; the hash's generation stays.
   */
  purgeAfter(afterId: number, scope: PurgeScope, word: PurgeWord): Promise<PurgeBatch>
  /** Drops some of the target's kept payloads settled at or before `before`. */
  dropKeptPayloads(
    target: string,
    before: number,
    word: PurgeWord,
  ): Promise<{ readonly dropped: number; readonly done: boolean }>

  /** Keeps the engine's log within its bound as far as others let it, waiting for none; meant for every few seconds. */
  boundLog(): Promise<LogSize>

  /**
   * Copies one commit's state into the empty file `to` while everybody goes on working, and verifies the copy by opening it.
   * @throws OnceishError BACKUP_UNVERIFIED, STORE_*
   */
  backup(to: string, options: BackupOptions): Promise<BackupCopy>
  /** The names that the engine takes for its own where a store is at `path`. */
  filesOf(path: string): readonly string[]

  close(): Promise<void>
}
