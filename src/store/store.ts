// What a store must do, in the words of the turn. Two engines implement it and one conformance suite holds both to it.
// No method waits on anything but the engine; every write is one transaction; time is always a parameter, except that an
// engine with a clock of its own may use that inside the transaction. Instants are UTC epoch ms.
import type { Clock } from '../core/clock.ts'
import type { Dedupe, PolicyOf } from '../core/policy.ts'
import type { QueuedState, RequestState } from '../core/task-state.ts'
import type { OwnWord, StoreOrigin } from './origin.ts'
import type { Investigation, TurnInput, TurnResult, WorkerLife } from './turn.ts'
import type {
  BackupCopy,
  BackupOptions,
  DoubtOrder,
  ForgottenSlice,
  LogSize,
  PurgeBatch,
  PurgeScope,
  PurgeWord,
} from './upkeep.ts'
import type {
  EventView,
  ListedOrphan,
  NewDeadline,
  OperatorResult,
  OperatorWord,
  OrphanResult,
  QueuedFilter,
  RequestFilter,
  RequestView,
  Resolution,
  Saying,
  SeenRequest,
  StoredRequest,
  StoreFacts,
  StoreStatus,
} from './views.ts'

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
  /** Null: as soon as it is enqueued. */
  readonly dueAt: number | null
  /** One of the same target and key is called at a time, in the order of ids; null: it waits for nobody. */
  readonly orderingKey: string | null
  /** Groups of one target take turns; null: those without one stand together. */
  readonly group: string | null
  readonly dedupe: Dedupe
  /** Past it, it is not called any more; null: it has no deadline. */
  readonly expiresAt: number | null
}

export type EnqueueResult =
  | { readonly kind: 'inserted'; readonly requestId: number; readonly state: QueuedState }
  | {
      readonly kind: 'duplicate'
      readonly requestId: number
      readonly state: RequestState
      readonly taskId: string | null
    }
  | { readonly kind: 'conflict'; readonly requestId: number; readonly state: RequestState }
  /** A new one whose deadline is over before it would be due: nothing was written. */
  | { readonly kind: 'expired'; readonly expiresAt: number; readonly dueAt: number }

/** What the store did not take. */
export type Refusal = EnqueueResult & { readonly kind: 'conflict' | 'expired' }

export function isRefused(result: EnqueueResult): result is Refusal {
  return result.kind === 'conflict' || result.kind === 'expired'
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
  /** The earliest that something comes due, is to be looked into, or opens again; null: nothing does. */
  readonly nextDueAt: number | null
}

/** What a commit is of; one of a turn may be of several. A backup's is the moment at which the whole copy takes its name. */
export type Commit =
  | 'enqueue'
  | 'claim'
  | 'settle'
  | 'sweep'
  | 'describe'
  | 'rank'
  | 'release'
  | 'retry'
  | 'reprioritize'
  | 'resolve'
  | 'cancel'
  | 'orphan'
  | 'purge'
  | 'pause'
  | 'resume'
  | 'restore'
  | 'migrate'
  | 'backup'

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

/** What we need of a caller's node-postgres `Client` or `PoolClient`; any copy of it will do. */
export interface CallerClient {
  /** As node-postgres has it. */
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>
}

export function isCallerClient(given: CallerConnection | CallerClient): given is CallerClient {
  return typeof (given as CallerClient | null)?.query === 'function'
}

/** What the config of a worker says of a target's queue. */
export interface RankingWord {
  readonly target: string
  /** How much waiting one step of priority is worth; null: priorities alone count. */
  readonly agingMs: number | null
}

export interface RankingChange extends RankingWord {
  /** As `agingMs` was before. */
  readonly formerMs: number | null
}

export interface Store {
  /** Of an engine that has a clock of its own, by which leases, due times and limits go; null: the caller's. */
  readonly clock: Clock | null
  facts(): Promise<StoreFacts>
  /**
   * One transaction; results in the order of `requests`. A refused one (a conflict, or expired) rolls back none of the others, or
   * with `stopAtRefusal` everything: then the last result is the refusal and nothing was written.
   */
  enqueue(
    requests: readonly NewRequest[],
    now: number,
    options?: { readonly stopAtRefusal?: boolean },
  ): Promise<readonly EnqueueResult[]>
  /**
   * The same inside the caller's own open transaction, which decides whether it happened. Synchronous where the engine is.
   * @throws OnceishError CONNECTION_UNFIT
   */
  enqueueIn(
    connection: CallerConnection | CallerClient,
    request: NewRequest,
    now: number,
  ): EnqueueResult | Promise<EnqueueResult>
  turn(input: TurnInput): Promise<TurnResult>
  /**
   * What became of this worker's last turn, where it threw since the answer to its commit was lost: what it made, or null where it did
   * not happen, or nothing was in doubt. To be asked before the next turn. @throws OnceishError STORE_UNREACHABLE: it is still not known
   */
  turnInDoubt(worker: WorkerLife): Promise<TurnResult | null>
  /**
   * A reader with a memory of its own: null where no other connection has committed since it was last asked. Cheap enough to
   * ask many times a second.
   */
  watchChanges(targets: readonly string[]): (now: number) => Promise<Change | null>
  /** A reader with a memory of its own: whether another connection has committed since it was last asked. */
  watchCommits(): () => Promise<boolean>
  /** Calls `listener` after each commit through this store. */
  onCommit(listener: () => void): () => void
  /** Calls `wake` when this process asks for a commit that makes work: a turn that is asked for from then on comes after it. */
  onWork(wake: () => void): () => void
  saveDescriptions(
    targets: readonly { name: string; version: string; description: string; bucket?: string | undefined }[],
    now: number,
  ): Promise<void>
  /**
   * By what the queues are ranked, from here on and for every process: the newest word holds, and turns move what waits by an earlier
   * one, a slice each. @returns what it changed.
   */
  rank(words: readonly RankingWord[], now: number, actor: string): Promise<readonly RankingChange[]>
  /** Ends the leases of investigations and trackings that this worker life will not finish. */
  releaseChecks(worker: WorkerLife, now: number): Promise<void>

  get(requestId: number): Promise<StoredRequest | null>
  /** In the order of ids. */
  list(filter: RequestFilter): Promise<readonly RequestView[]>
  /** Those that are ready or scheduled, in the order of ids. */
  queued(
    filter: QueuedFilter,
    afterId: number,
    limit: number,
  ): Promise<readonly (SeenRequest & { readonly state: QueuedState })[]>
  /** Of each request that is there, in no order. */
  viewsOf(requestIds: readonly number[]): Promise<readonly RequestView[]>
  /** In the order of their commits. */
  eventsAfter(eventId: number, limit: number): Promise<readonly EventView[]>
  /** 0 where nothing was ever written. */
  lastEventId(): Promise<number>
  orphans(limit: number): Promise<readonly ListedOrphan[]>
  status(): Promise<StoreStatus>
  /** `claimedBefore`: younger calls of other workers are theirs to end. */
  drainStatus(targets: readonly string[], horizonAt: number, claimedBefore: number): Promise<DrainStatus>
  /** Rows in doubt in id order, for a dry run: nothing is leased or changed. */
  inDoubt(afterId: number, limit: number): Promise<readonly Investigation[]>

  retry(requestId: number, word: OperatorWord, options: NewDeadline & { policyOf: PolicyOf }): Promise<OperatorResult>
  /** Of a request in doubt it is the priority that it returns to the queue with; its call stays as it was made. */
  reprioritize(requestId: number, priority: number, word: OperatorWord): Promise<OperatorResult>
  /** A call may only follow when the last one can no longer land (`quietMs`); `force` skips that wait. */
  resolve(
    requestId: number,
    resolution: Resolution,
    word: OperatorWord,
    options: { force: boolean; policyOf: PolicyOf },
  ): Promise<OperatorResult>
  /**
   * One word for many, in one transaction and in their order; a row that has changed since it was seen is refused, and the others
   * go on. `dryRun`: what it would come to, and nothing is written.
   */
  sayToEach(
    seen: readonly SeenRequest[],
    saying: Saying,
    word: Omit<OperatorWord, 'ifVersion'>,
    options: { dryRun: boolean; policyOf: PolicyOf },
  ): Promise<readonly OperatorResult[]>
  cancel(requestId: number, word: OperatorWord): Promise<OperatorResult>
  /** The orphan becomes its request's task, and the task that this had is the orphan. */
  adoptOrphan(orphanId: number, word: OperatorWord, policyOf: PolicyOf): Promise<OrphanResult>
  /** A person has dealt with it. */
  dismissOrphan(orphanId: number, word: OperatorWord): Promise<OrphanResult>
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
   * Copies one commit's state into the empty file `to` while everybody goes on working, and verifies the copy by opening it. Null: the
   * engine's own server makes the backups.
   * @throws OnceishError BACKUP_UNVERIFIED, STORE_*
   */
  readonly backup: ((to: string, options: BackupOptions) => Promise<BackupCopy>) | null
  /** Whether it made the calls that were made from it, or was put back from a copy. A turn that would call refuses the latter. */
  origin(): Promise<StoreOrigin>
  /** A slice of what is owed, in id order after `afterId`: what may have been called since the copy becomes `unknown`. */
  doubtForgotten(afterId: number, order: DoubtOrder): Promise<ForgottenSlice>
  /** A person's word: from here on this store is the one that calls; a restored one begins a new incarnation. */
  declareOwn(kind: OwnWord, word: { now: number; actor: string }, detail: unknown): Promise<void>

  /** The names that the engine takes for its own where a store is at `path`. */
  filesOf(path: string): readonly string[]

  close(): Promise<void>
}
