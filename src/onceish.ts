// Composition root: a config becomes a store, targets and services. It owns no logic.
import type { Config } from './config/config.ts'
import { assertEnvSet, readEnvironment } from './config/environment.ts'
import { parseConfig } from './config/options.ts'
import { createPrepare } from './consumer/prepare.ts'
import type { WorkerReport } from './consumer/tally.ts'
import { startWorker, type Worker } from './consumer/worker.ts'
import { type Clock, latestWall, systemClock } from './core/clock.ts'
import { OnceishError } from './core/errors.ts'
import { type Log, SILENT } from './core/log.ts'
import type { RequestState } from './core/task-state.ts'
import { type Enqueued, enqueue, enqueueMany } from './producer/enqueue.ts'
import { type EnqueueLinesOptions, type EnqueueLinesReport, enqueueLines } from './producer/enqueue-lines.ts'
import type { EnqueueRequest, RequestRules } from './producer/new-request.ts'
import { type DryRunLine, dryRun } from './recovery/dry-run.ts'
import { createReconciler } from './recovery/reconcile.ts'
import { createSettleWatch } from './recovery/settle-watch.ts'
import { createTracker } from './recovery/track.ts'
import { openStore } from './store/open-store.ts'
import type {
  OperatorResult,
  OrphanView,
  RequestDetail,
  RequestView,
  Resolution,
  StoreFacts,
  StoreStatus,
} from './store/store.ts'
import { createTargetRegistry } from './target/registry.ts'
import type { Target } from './target/target.ts'

export interface OpenOptions {
  /** As parsed by `loadConfig`, or the same shape as a config file as an object. */
  readonly config: Config | Record<string, unknown>
  /** Makes a missing database; default true. */
  readonly create?: boolean
  readonly clock?: Clock
  readonly log?: Log
  /** Who speaks, in events; default `library`. */
  readonly actor?: string
}

export interface WorkOptions {
  /** Calls at a time; default the config's `worker.concurrency`. */
  readonly concurrency?: number
  /** Names of the targets to serve; default all. */
  readonly targets?: readonly string[]
  /** End when nothing is owed or due within `horizonMs`. */
  readonly drain?: { readonly horizonMs: number }
  readonly onProgress?: (report: WorkerReport) => void
}

export interface WordOptions {
  readonly actor?: string
  readonly note?: string
  /** Refuse when the request has changed since this version was seen. */
  readonly ifVersion?: number
}

export interface Onceish {
  readonly config: Config
  facts(): Promise<StoreFacts>
  /** @throws OnceishError TARGET_UNKNOWN, REQUEST_INVALID, PAYLOAD_*, LOGICAL_HASH_CONFLICT */
  enqueue(request: EnqueueRequest): Promise<Enqueued>
  enqueueMany(requests: readonly EnqueueRequest[]): Promise<readonly Enqueued[]>
  /** NDJSON, streamed. */
  enqueueLines(
    source: AsyncIterable<Buffer>,
    options: Omit<EnqueueLinesOptions, 'rules' | 'now'>,
  ): Promise<EnqueueLinesReport>
  /** @throws OnceishError ENV_MISSING when a name that a served target needs is unset; TARGET_UNKNOWN */
  startWorker(options?: WorkOptions): Promise<Worker>
  /** Works on what is in doubt until none of it can be decided within `horizonMs`, replays included; claims nothing new. */
  startRecovery(options?: WorkOptions): Promise<Worker>
  dryRun(): AsyncGenerator<DryRunLine>
  get(requestId: number): Promise<RequestDetail | null>
  list(filter: {
    state?: RequestState
    target?: string
    limit?: number
    afterId?: number
  }): Promise<readonly RequestView[]>
  orphans(limit?: number): Promise<readonly OrphanView[]>
  status(): Promise<StoreStatus>
  retry(requestId: number, options?: WordOptions): Promise<OperatorResult>
  resolve(
    requestId: number,
    resolution: Resolution,
    options?: WordOptions & { force?: boolean },
  ): Promise<OperatorResult>
  cancel(requestId: number, options?: WordOptions): Promise<OperatorResult>
  pause(target: string, reason?: string): Promise<void>
  /** @returns false where it was not paused. */
  resume(target: string): Promise<boolean>
  close(): Promise<void>
}

const LIST_LIMIT = 100
const DRAIN_HORIZON_MS = 3_600_000

/** @throws OnceishError CONFIG_*, STORE_* */
export async function openOnceish(options: OpenOptions): Promise<Onceish> {
  const clock = options.clock ?? systemClock
  const log = options.log ?? SILENT
  const config = isParsed(options.config)
    ? options.config
    : parseConfig(options.config, { path: null, baseDir: process.cwd() })
  const now = () => clock.wallNow()
  const store = await openStore(config.store, { create: options.create ?? true, now: now() })
  const env = readEnvironment()
  const { namespace: ownNamespace } = await store.facts()
  const registry = createTargetRegistry(Object.values(config.targets), { env, accountSalt: ownNamespace })
  const namespace = config.namespace ?? ownNamespace
  const actor = options.actor ?? 'library'
  const rules: RequestRules = {
    maxPayloadBytes: config.maxPayloadBytes,
    policyOf: (target) => registry.get(target)?.policy,
    targetNames: registry.targets.map((target) => target.name),
  }
  const policyOf = rules.policyOf
  const latestNow = latestWall(clock)
  const reconcile = createReconciler({
    registry,
    watch: createSettleWatch(clock),
    clock,
    windowClock: async () => ({ wall: now(), latest: latestNow(), highWaterAt: (await store.facts()).highWaterAt }),
    leaseMs: config.worker.leaseMs,
    random: Math.random,
  })
  const word = ({ actor: who, note, ifVersion }: WordOptions = {}) => ({
    now: now(),
    actor: who ?? actor,
    note: note ?? null,
    ifVersion: ifVersion ?? null,
  })

  async function start(work: WorkOptions, claimsReady: boolean): Promise<Worker> {
    const targets = servedTargets(work.targets)
    const serves = targets.map((target) => target.name)
    assertEnvSet(config, env, serves)
    const described = targets.flatMap(({ name, version, description }) =>
      description === null ? [] : [{ name, version, description }],
    )
    await store.saveDescriptions(described, now())
    return startWorker({
      store,
      registry,
      serves,
      prepare: createPrepare(registry, namespace, log),
      reconcile,
      track: createTracker(registry),
      clock,
      latestNow,
      log,
      ...config.worker,
      ...(work.concurrency === undefined ? {} : { concurrency: work.concurrency }),
      claimsReady,
      drain: work.drain ?? null,
      onProgress: work.onProgress,
    })
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

  return {
    config,
    facts: () => store.facts(),
    enqueue: (request) => enqueue(store, request, rules, now()),
    enqueueMany: (requests) => enqueueMany(store, requests, rules, now),
    enqueueLines: (source, lines) => enqueueLines(store, source, { ...lines, rules, now }),
    startWorker: (work = {}) => start(work, true),
    startRecovery: (work = {}) => start({ drain: { horizonMs: DRAIN_HORIZON_MS }, ...work }, false),
    dryRun: () => dryRun(store, reconcile, new Map(registry.targets.map(({ name, version }) => [name, version])), now),
    get: (requestId) => store.get(requestId),
    list: (filter) => store.list({ ...filter, limit: filter.limit ?? LIST_LIMIT }),
    orphans: (limit = LIST_LIMIT) => store.orphans(limit),
    status: () => store.status(),
    retry: (requestId, said) => store.retry(requestId, word(said), policyOf),
    resolve: (requestId, resolution, said) =>
      store.resolve(requestId, resolution, word(said), { force: said?.force ?? false, policyOf }),
    cancel: (requestId, said) => store.cancel(requestId, word(said)),
    pause: (target, reason) => store.pause(target, reason ?? null, actor, now()),
    resume: (target) => store.resume(target, actor, now()),
    close: async () => {
      await registry.close()
      await store.close()
    },
  }
}

function isParsed(config: Config | Record<string, unknown>): config is Config {
  return 'path' in config && 'maxPayloadBytes' in config && 'worker' in config
}
