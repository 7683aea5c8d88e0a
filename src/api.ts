// What a caller sees of an opened store: types alone. How it is put together is onceish.ts's.
import type { Config } from './config/config.ts'
import type { GivenTarget, TargetsInCode } from './config/in-code.ts'
import type { WorkerReport } from './consumer/tally.ts'
import type { Worker } from './consumer/worker.ts'
import type { Clock } from './core/clock.ts'
import type { Log } from './core/log.ts'
import type { BackupOptions, BackupReport } from './maintenance/backup.ts'
import type { PurgeOptions, PurgeReport } from './maintenance/purge.ts'
import type { Enqueued } from './producer/enqueue.ts'
import type { EnqueueLinesReport, LinesOptions } from './producer/enqueue-lines.ts'
import type { EnqueueRequest } from './producer/new-request.ts'
import type { DryRunLine } from './recovery/dry-run.ts'
import type { RequestStory } from './recovery/outlook.ts'
import type { RestoredOptions, RestoredReport } from './recovery/restored.ts'
import type { EachFilter, SaidReport, SaidRequest } from './recovery/say-to-each.ts'
import type { StoreOrigin } from './store/origin.ts'
import type { CallerClient, CallerConnection } from './store/store.ts'
import type {
  ListedOrphan,
  NewDeadline,
  OperatorResult,
  OrphanResult,
  RequestEvent,
  RequestFilter,
  RequestView,
  Resolution,
  StoreFacts,
  StoreStatus,
} from './store/views.ts'
import type { EventOptions } from './watch/event-feed.ts'
import type { WaitOptions } from './watch/wait-for.ts'

/** What an opened store is given besides its targets. */
export interface OpenSettings {
  /** Makes a missing database; default true. */
  readonly create?: boolean
  /** Default the machine's. */
  readonly clock?: Clock
  /** Default silent. */
  readonly log?: Log
  /** Who speaks, in events; default `library`. */
  readonly actor?: string
}

export interface OpenConfig extends OpenSettings {
  /** As parsed by `loadConfig`, or the same shape as a config file as an object. */
  readonly config: Config | Record<string, unknown>
}

export interface OpenTargets<Targets extends readonly GivenTarget[]> extends OpenSettings, TargetsInCode<Targets> {}

export type OpenOptions = OpenConfig | OpenTargets<readonly GivenTarget[]>

/** A request for one of the targets, with the payload that it takes. */
export type RequestOf<Payloads> = {
  readonly [Name in keyof Payloads & string]: EnqueueRequest<Name, Payloads[Name]>
}[keyof Payloads & string]

/** How one worker works; absent fields are the config's. */
export interface WorkOptions {
  /**
   * Calls at a time to each target, and to all together but for slow ones (over 250 ms; at most four times as many in all); default
   * the config's `worker.concurrency`.
   */
  readonly concurrency?: number
  /** Names of the targets to serve; default all. */
  readonly targets?: readonly string[]
  /** End when nothing is owed or due within `horizonMs`. */
  readonly drain?: { readonly horizonMs: number }
  /** Called after each turn. */
  readonly onProgress?: (report: WorkerReport) => void
}

/** Who says it, and with what in mind. */
export interface WordOptions {
  /** Default the one of `openOnceish`. */
  readonly actor?: string
  /** Kept in the time line. */
  readonly note?: string
  /** Refuse when the request has changed since this version was seen. */
  readonly ifVersion?: number
}

/** Who says it to many, and how. */
export interface EachOptions extends WordOptions {
  /** Tells what it would come to, and changes nothing. */
  readonly dryRun?: boolean
  /** Told of each, in the order of the report. */
  readonly onEach?: (said: SaidRequest) => void
}

/**
 * One open store with its targets: `openOnceish` gives it. Besides what each method names, any of them rejects with STORE_CLOSED
 * after `close`, with USAGE for an option that it does not know, with STORE_BUSY where another process keeps the file locked, and with STORE_FULL, STORE_IO_FAILED,
 * STORE_UNWRITABLE where the machine fails it. Instants are UTC epoch ms.
 */
export interface Onceish<Payloads = Record<string, unknown>> {
  /** As it was parsed, defaults filled in. */
  readonly config: Config
  /** What the store says of itself. */
  facts(): Promise<StoreFacts>
  /**
   * Once this resolves, the request is synced to disk: from then on it is owed.
   * @throws OnceishError TARGET_UNKNOWN, REQUEST_INVALID, PAYLOAD_INVALID, PAYLOAD_NOT_CANONICAL, PAYLOAD_TOO_LARGE, or
   * LOGICAL_HASH_CONFLICT when the hash belongs to a request with another payload
   */
  enqueue<Name extends keyof Payloads & string>(request: EnqueueRequest<Name, Payloads[Name]>): Promise<Enqueued>
  /**
   * What each says by itself is checked before any is written; then transactions of at most 1,000 and 8 MiB of payloads, each of them whole.
   * @returns in the order of `requests`.
   * @throws OnceishError as `enqueue`; where one is in conflict, or over before it is due, the transactions before its own stay, and
   * enqueuing all again is safe
   */
  enqueueMany(requests: readonly RequestOf<Payloads>[]): Promise<readonly Enqueued[]>
  /**
   * Inside an open transaction of the caller's own better-sqlite3 connection to the same file: business rows and the request
   * commit or vanish together. It is owed once that transaction has committed.
   * @throws OnceishError CONNECTION_UNFIT (another file, no transaction, commits not synced), and as `enqueue`
   */
  enqueueIn<Name extends keyof Payloads & string>(
    connection: CallerConnection,
    request: EnqueueRequest<Name, Payloads[Name]>,
  ): Enqueued
  /**
   * The same where the store is on PostgreSQL, on a node-postgres client (`Client`, or `PoolClient` of `pool.connect()`) that is between
   * BEGIN and COMMIT on the same database. Await it before the client's next query. Where it rejects, the caller's transaction is as it
   * was before and can go on.
   * @throws OnceishError CONNECTION_UNFIT (another database, no transaction, read-only), STORE_BUSY where the whole transaction is to be
   * done again, and as `enqueue`
   */
  enqueueIn<Name extends keyof Payloads & string>(
    client: CallerClient,
    request: EnqueueRequest<Name, Payloads[Name]>,
  ): Promise<Enqueued>
  /**
   * NDJSON, streamed: `{"payload", "target"?, "priority"?, "runAt"?, "delay"?, "expiresAt"?, "logicalHash"?, "orderingKey"?, "group"?, "dedupe"?}` a line.
   * Bad lines are in the report, not thrown; running the same lines again is safe.
   */
  enqueueLines(source: AsyncIterable<Buffer>, options: LinesOptions): Promise<EnqueueLinesReport>
  /**
   * Works until it is stopped, or with `drain` until nothing is owed. Its `done` rejects with STORE_RESTORED or STORE_MOVED where
   * the store did not make its calls itself.
   * @throws OnceishError at once: ENV_MISSING when a name that a served target needs is unset; TARGET_UNKNOWN, STORE_CLOSED, USAGE
   */
  startWorker(options?: WorkOptions): Worker
  /**
   * Works on what is in doubt until none of it can be decided within `horizonMs` (default an hour), replays included; claims
   * nothing new.
   * @throws OnceishError as `startWorker`
   */
  startRecovery(options?: WorkOptions): Worker
  /** `startRecovery`, to its end. */
  recover(options?: WorkOptions): Promise<WorkerReport>
  /** What recovery would do with each request in doubt: lookups are asked, nothing is written and nothing is called. */
  dryRun(): AsyncGenerator<DryRunLine>
  /** Whether this store made its own calls, or was put back from a copy: then no worker of it calls. */
  origin(): Promise<StoreOrigin>
  /**
   * A person's word that the store was put back from a copy: whatever it owes may have been called since, so it is put in doubt,
   * which `recover` then looks into. Stop whatever else works the store first. Run again after a crash, it goes on.
   * @throws OnceishError STORE_NOT_RESTORED where nothing shows it and `force` is not given
   */
  declareRestored(options?: RestoredOptions): Promise<RestoredReport>
  /**
   * A person's word that a store that is found at another place was moved, and is worked at no other.
   * @throws OnceishError STORE_NOT_RESTORED where it was not moved, or has forgotten calls
   */
  declareMoved(): Promise<void>
  /**
   * Until the request is submitted, or has come to another end: held, dead, canceled.
   * @throws OnceishError REQUEST_NOT_FOUND, WAIT_TIMEOUT; the signal's reason
   */
  waitFor(requestId: number, options?: WaitOptions): Promise<RequestView>
  /** What happens, from now on or after a stored event; ends with `close`. */
  events(options?: EventOptions): AsyncIterable<RequestEvent>
  /** Everything about one request, and what happens next with it; null where there is none with this id. */
  get(requestId: number): Promise<RequestStory | null>
  /** In the order of ids, at most `limit` (default 100) beyond `afterId`. */
  list(filter?: Partial<RequestFilter>): Promise<readonly RequestView[]>
  /** Tasks that APIs made beyond those that requests were settled on; at most `limit`, default 100. */
  orphans(limit?: number): Promise<readonly ListedOrphan[]>
  /** Counts by state and target, and what is oldest. */
  status(): Promise<StoreStatus>
  /**
   * Takes a dead request back into the queue, with a budget of its own. One whose deadline is over needs a new one, or none.
   * @throws OnceishError REQUEST_INVALID for an `expiresAt` that is no instant
   */
  retry(requestId: number, options?: WordOptions & NewDeadline): Promise<OperatorResult>
  /**
   * Queued requests move to where the priority puts them; one in doubt returns with it, should it be queued again, and its call and what
   * is asked about it stay as they were made. @throws OnceishError REQUEST_INVALID for no priority
   */
  reprioritize(requestId: number, priority: number, options?: WordOptions): Promise<OperatorResult>
  /**
   * A person's word on a request in doubt. What leads to a call is refused while the last one can still land; `force` skips
   * that wait. @throws OnceishError REQUEST_INVALID for a resolution that is none, or an `expiresAt` that is no instant
   */
  resolve(
    requestId: number,
    resolution: Resolution,
    options?: WordOptions & { force?: boolean },
  ): Promise<OperatorResult>
  /**
   * One word for many: those of `ids`, or every held request (`state: 'unknown'`: every unknown one) that fits. Which they are is
   * read first, with the version of each; one that has changed by the time it is told is refused, and the others go on. Each is
   * told once, whatever becomes of the process: doing it again is safe. @throws OnceishError USAGE, and as `resolve`
   */
  resolveWhere(
    filter: EachFilter,
    resolution: Resolution,
    options?: EachOptions & { force?: boolean },
  ): Promise<SaidReport>
  /** The same for dead requests, which are taken back into the queue. @throws OnceishError USAGE, and as `retry` */
  retryWhere(filter: EachFilter, options?: EachOptions & NewDeadline): Promise<SaidReport>
  /** The same for those of `ids`, or every ready and scheduled request that fits. @throws OnceishError USAGE, REQUEST_INVALID */
  reprioritizeWhere(filter: EachFilter, priority: number, options?: EachOptions): Promise<SaidReport>
  /** Makes an orphan the task of its request; the task that this had becomes the orphan. `ifVersion` is the request's. */
  adoptOrphan(orphanId: number, options?: WordOptions): Promise<OrphanResult>
  /** A person has dealt with the orphan: it is listed no more, and its request may be purged. */
  dismissOrphan(orphanId: number, options?: Omit<WordOptions, 'ifVersion'>): Promise<OrphanResult>
  /** Ends a queued request; one in doubt is looked up first, and its task is canceled where the target says how. */
  cancel(requestId: number, options?: WordOptions): Promise<OperatorResult>
  /**
   * The same for many, as `resolveWhere` takes them: those of `ids`, or every ready and scheduled request that fits (`state`: every dead,
   * held or unknown one). @throws OnceishError USAGE
   */
  cancelWhere(filter: EachFilter, options?: EachOptions): Promise<SaidReport>
  /** No worker calls the target until `resume`; lookups go on. */
  pause(target: string, reason?: string): Promise<void>
  /**
   * Opens a target again, also one that its API's refusal of the credentials has paused, or a wait that the API told: of its bucket
   * too. After a wait calls begin again slowly, and requests that were told themselves when they are due.
   * @returns false where it was not paused.
   */
  resume(target: string): Promise<boolean>
  /**
   * Removes requests that have ended and their logical hashes' claims; doubt stays, but for what a person abandoned, where
   * `abandoned` says so. @throws OnceishError USAGE
   */
  purge(options: PurgeOptions): Promise<PurgeReport>
  /**
   * A verified copy of the store in a new file, taken while everybody goes on working.
   * @throws OnceishError FILE_EXISTS, FILE_UNWRITABLE, BACKUP_UNVERIFIED, STORE_UNSUPPORTED on PostgreSQL, whose backups the server makes, STORE_*
   */
  backup(path: string, options?: BackupOptions): Promise<BackupReport>
  /** Stops its workers as `worker.stop` does, ends waits and iterations, and closes the file. */
  close(): Promise<void>
}
