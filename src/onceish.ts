// Composition root: a config becomes a store, targets and services. It owns no logic.
import type { Config } from './config/config.ts'
import { assertEnvSet, readEnvironment } from './config/environment.ts'
import { configInCode, type GivenTarget, type PayloadsOf, type TargetsInCode } from './config/in-code.ts'
import { parseConfig } from './config/options.ts'
import { createPrepare } from './consumer/prepare.ts'
import type { WorkerReport } from './consumer/tally.ts'
import { type PlainSubmission, startWorker, type Worker } from './consumer/worker.ts'
import { type Clock, latestWall, systemClock } from './core/clock.ts'
import { OnceishError } from './core/errors.ts'
import { type Log, SILENT } from './core/log.ts'
import type { RequestState } from './core/task-state.ts'
import { type BackupOptions, type BackupReport, backup } from './maintenance/backup.ts'
import { type PurgeOptions, type PurgeReport, purge } from './maintenance/purge.ts'
import { type Enqueued, enqueue, enqueueIn, enqueueMany } from './producer/enqueue.ts'
import { type EnqueueLinesReport, enqueueLines, type LinesOptions } from './producer/enqueue-lines.ts'
import type { EnqueueRequest, RequestRules } from './producer/new-request.ts'
import { type DryRunLine, dryRun } from './recovery/dry-run.ts'
import { createReconciler } from './recovery/reconcile.ts'
import { createSettleWatch } from './recovery/settle-watch.ts'
import { createTracker } from './recovery/track.ts'
import { openStore } from './store/open-store.ts'
import type {
  CallerConnection,
  OperatorResult,
  OrphanView,
  RequestDetail,
  RequestView,
  Resolution,
  Store,
  StoreFacts,
  StoreProbe,
  StoreStatus,
} from './store/store.ts'
import { createTargetRegistry } from './target/registry.ts'
import type { Target } from './target/target.ts'
import { watchCommits } from './watch/commits.ts'
import { createEventFeed, type EventOptions, type RequestEvent } from './watch/event-feed.ts'
import { createWaitFor, type WaitOptions } from './watch/wait-for.ts'

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
  /** Calls at a time; default the config's `worker.concurrency`. */
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

/**
 * One open store with its targets: `openOnceish` gives it. Besides what each method names, any of them rejects with STORE_CLOSED
 * after `close`, with STORE_BUSY where another process keeps the file locked, and with STORE_FULL, STORE_IO_FAILED,
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
   * All are checked before any is written, in transactions of at most 1,000; each is whole.
   * @returns in the order of `requests`.
   * @throws OnceishError as `enqueue`; at a conflict the transactions before it stay, and enqueuing all again is safe
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
   * NDJSON, streamed: `{"payload", "target"?, "priority"?, "runAt"?, "logicalHash"?, "dedupe"?}` a line.
   * Bad lines are in the report, not thrown; running the same lines again is safe.
   */
  enqueueLines(source: AsyncIterable<Buffer>, options: LinesOptions): Promise<EnqueueLinesReport>
  /**
   * Works until it is stopped, or with `drain` until nothing is owed.
   * @throws OnceishError at once: ENV_MISSING when a name that a served target needs is unset; TARGET_UNKNOWN, STORE_CLOSED
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
  /**
   * Until the request is submitted, or has come to another end: held, dead, canceled.
   * @throws OnceishError REQUEST_NOT_FOUND, WAIT_TIMEOUT; the signal's reason
   */
  waitFor(requestId: number, options?: WaitOptions): Promise<RequestView>
  /** What happens, from now on or after a stored event; ends with `close`. */
  events(options?: EventOptions): AsyncIterable<RequestEvent>
  /** Everything about one request; null where there is none with this id. */
  get(requestId: number): Promise<RequestDetail | null>
  /** In the order of ids, at most `limit` (default 100) beyond `afterId`. */
  list(filter?: {
    state?: RequestState
    target?: string
    limit?: number
    afterId?: number
  }): Promise<readonly RequestView[]>
  /** Tasks that APIs made beyond those that requests were settled on; at most `limit`, default 100. */
  orphans(limit?: number): Promise<readonly OrphanView[]>
  /** Counts by state and target, and what is oldest. */
  status(): Promise<StoreStatus>
  /** Takes a dead request back into the queue, with a budget of its own. */
  retry(requestId: number, options?: WordOptions): Promise<OperatorResult>
  /**
   * A person's word on a request in doubt. What leads to a call is refused while the last one can still land; `force` skips
   * that wait.
   */
  resolve(
    requestId: number,
    resolution: Resolution,
    options?: WordOptions & { force?: boolean },
  ): Promise<OperatorResult>
  /** Ends a queued request; one in doubt is looked up first, and its task is canceled where the target says how. */
  cancel(requestId: number, options?: WordOptions): Promise<OperatorResult>
  /** No worker calls the target until `resume`; lookups go on. */
  pause(target: string, reason?: string): Promise<void>
  /**
   * Opens a target again, also one that its API's refusal of the credentials has paused.
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
   * @throws OnceishError FILE_EXISTS, FILE_UNWRITABLE, BACKUP_UNVERIFIED, STORE_*
   */
  backup(path: string, options?: BackupOptions): Promise<BackupReport>
  /** Stops its workers as `worker.stop` does, ends waits and iterations, and closes the file. */
  close(): Promise<void>
}

const LIST_LIMIT = 100
const DRAIN_HORIZON_MS = 3_600_000

/**
 * Opens the store that the config names, and makes it where it is missing. Nothing is called before `startWorker`.
 * @throws OnceishError CONFIG_INVALID with every fault of a config or targets that are not safe; STORE_NOT_FOUND,
 * STORE_UNWRITABLE, STORE_NOT_A_DATABASE, STORE_CORRUPT, STORE_SCHEMA_NEWER and others of STORE_* for a store that cannot be used
 */
export function openOnceish<const Targets extends readonly GivenTarget[]>(
  options: OpenTargets<Targets>,
): Promise<Onceish<PayloadsOf<Targets>>>
export function openOnceish(options: OpenConfig): Promise<Onceish>
export function openOnceish(options: OpenOptions): Promise<Onceish> {
  return composeOnceish(options)
}

/** What tests may stand between. */
export interface Seams {
  readonly probe?: StoreProbe
  readonly store?: (store: Store) => Store
  readonly target?: (target: Target) => Target
  readonly random?: () => number
}

/** @internal `openOnceish` for tests. */
export async function composeOnceish(options: OpenOptions, seams: Seams = {}): Promise<Onceish> {
  const clock = options.clock ?? systemClock
  const log = options.log ?? SILENT
  const random = seams.random ?? Math.random
  const config = configOf(options)
  const now = () => clock.wallNow()
  const opened = await openStore(config.store, { create: options.create ?? true, now: now(), probe: seams.probe })
  const store = seams.store?.(opened) ?? opened
  const env = readEnvironment()
  const { namespace: ownNamespace } = await store.facts()
  const registry = createTargetRegistry(
    { described: Object.values(config.targets), coded: Object.values(config.codeTargets) },
    { env, accountSalt: ownNamespace, seam: seams.target },
  )
  const namespace = config.namespace ?? ownNamespace
  const actor = options.actor ?? 'library'
  const policyOf = (target: string) => registry.get(target)?.policy
  const rules: RequestRules = {
    maxPayloadBytes: config.maxPayloadBytes,
    policyOf,
    targetNames: registry.targets.map((target) => target.name),
    schemaOf: (target) => config.payloads[target],
  }
  const latestNow = latestWall(clock)
  const reconcile = createReconciler({
    registry,
    watch: createSettleWatch(clock),
    clock,
    windowClock: async () => ({ wall: now(), latest: latestNow(), highWaterAt: (await store.facts()).highWaterAt }),
    leaseMs: config.worker.leaseMs,
    random,
  })
  const commits = watchCommits(store)
  const feed = createEventFeed(store, commits)
  const waitFor = createWaitFor(store, commits, (target) => (policyOf(target)?.tracking ?? null) !== null)
  const workers = new Set<Worker>()
  const word = ({ actor: who, note, ifVersion }: WordOptions = {}) => ({
    now: now(),
    actor: who ?? actor,
    note: note ?? null,
    ifVersion: ifVersion ?? null,
  })

  function start(work: WorkOptions, claimsReady: boolean): Worker {
    const targets = servedTargets(work.targets)
    const serves = targets.map((target) => target.name)
    assertEnvSet(config, env, serves)
    const worker = startWorker({
      store,
      registry,
      serves,
      descriptions: targets.flatMap(({ name, version, description }) =>
        description === null ? [] : [{ name, version, description }],
      ),
      prepare: createPrepare(registry, namespace, log),
      reconcile,
      track: createTracker(registry),
      clock,
      latestNow,
      log,
      random,
      ...config.worker,
      ...(work.concurrency === undefined ? {} : { concurrency: work.concurrency }),
      claimsReady,
      drain: work.drain ?? null,
      onProgress: work.onProgress,
      onPlain: (submitted) => feed.tell(submitted.map((one) => plainEvent(one, config.worker.name))),
    })
    workers.add(worker)
    const forget = () => workers.delete(worker)
    worker.done.then(forget, forget)
    return worker
  }

  function servedTargets(names: readonly string[] | undefined): readonly Target[] {
    if (names === undefined) return registry.targets
    return names.map((name) => {
      const target = registry.get(name)
      if (target !== undefined) return target
      throw new OnceishError(
        'TARGET_UNKNOWN',
        `the config names no target "${name}" (known: ${rules.targetNames.join(', ') || 'none'})`,
      )
    })
  }

  async function close(): Promise<void> {
    await Promise.allSettled([...workers].map((worker) => worker.stop()))
    feed.close()
    await registry.close()
    await store.close()
    commits.close()
  }

  const startRecovery = (work: WorkOptions = {}) => start({ drain: { horizonMs: DRAIN_HORIZON_MS }, ...work }, false)

  return {
    config,
    facts: () => store.facts(),
    enqueue: (request) => enqueue(store, request, rules, now()),
    enqueueMany: (requests) => enqueueMany(store, requests, rules, now),
    enqueueIn: (connection, request) => enqueueIn(store, connection, request, rules, now()),
    enqueueLines: (source, lines) => enqueueLines(store, source, { ...lines, rules, now }),
    startWorker: (work = {}) => start(work, true),
    startRecovery,
    recover: async (work) => startRecovery(work).done,
    dryRun: () => dryRun(store, reconcile, new Map(registry.targets.map(({ name, version }) => [name, version])), now),
    waitFor,
    events: (from) => feed.events(from),
    get: (requestId) => store.get(requestId),
    list: (filter = {}) => store.list({ ...filter, limit: filter.limit ?? LIST_LIMIT }),
    orphans: (limit = LIST_LIMIT) => store.orphans(limit),
    status: () => store.status(),
    retry: (requestId, said) => store.retry(requestId, word(said), policyOf),
    resolve: (requestId, resolution, said) =>
      store.resolve(requestId, resolution, word(said), { force: said?.force ?? false, policyOf }),
    cancel: (requestId, said) => store.cancel(requestId, word(said)),
    pause: (target, reason) => store.pause(target, reason ?? null, actor, now()),
    resume: (target) => store.resume(target, actor, now()),
    purge: (what) => purge({ store, now: now(), actor, keepPayloadMs: keptFor(registry.targets) }, what),
    backup: (path, options) => backup(store, path, options),
    close,
  }
}

function configOf(options: OpenOptions): Config {
  if ('targets' in options) return configInCode(options, process.cwd())
  const { config } = options
  return isParsed(config) ? config : parseConfig(config, { path: null, baseDir: process.cwd() })
}

function plainEvent({ requestId, target, attempt, taskId, at }: PlainSubmission, workerName: string): RequestEvent {
  const moved = { kind: 'submitted', from: 'invoking', to: 'submitted' }
  return {
    eventId: null,
    requestId,
    target,
    at,
    ...moved,
    attempt,
    actor: `worker:${workerName}`,
    reason: 'answer',
    detail: { taskId },
  }
}

function keptFor(targets: readonly Target[]): Record<string, number> {
  return Object.fromEntries(targets.map(({ name, policy }) => [name, policy.keepPayloadMs ?? 0]))
}

function isParsed(config: Config | Record<string, unknown>): config is Config {
  return 'path' in config && 'maxPayloadBytes' in config && 'worker' in config && 'codeTargets' in config
}
