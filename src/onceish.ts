// Composition root: a config becomes a store, targets and services. It owns no logic.
import type { EachOptions, Onceish, OpenConfig, OpenOptions, OpenTargets, WordOptions, WorkOptions } from './api.ts'
import type { Config } from './config/config.ts'
import { assertEnvSet, neededEnv, readEnvironment } from './config/environment.ts'
import { configInCode, type GivenTarget, type PayloadsOf } from './config/in-code.ts'
import { parseConfig } from './config/options.ts'
import { createPrepare } from './consumer/prepare.ts'
import { startWorker, type Worker } from './consumer/worker.ts'
import { steadyTime, systemClock } from './core/clock.ts'
import { OnceishError } from './core/errors.ts'
import { checkedId } from './core/given.ts'
import { DRAIN_HORIZON_MS } from './core/limits.ts'
import { SILENT } from './core/log.ts'
import { windowClockOf } from './core/windows.ts'
import {
  checkedFilter,
  checkedLimit,
  checkedName,
  checkedResolution,
  checkedSettings,
  checkedWord,
  checkedWork,
} from './given.ts'
import { backup } from './maintenance/backup.ts'
import { purge } from './maintenance/purge.ts'
import { enqueue, enqueueIn, enqueueMany } from './producer/enqueue.ts'
import { enqueueLines } from './producer/enqueue-lines.ts'
import { checkedInstant, checkedPriority, type EnqueueRequest, type RequestRules } from './producer/new-request.ts'
import { dryRun } from './recovery/dry-run.ts'
import { createOutlook } from './recovery/outlook.ts'
import { createReconciler } from './recovery/reconcile.ts'
import { declareMoved, declareRestored } from './recovery/restored.ts'
import { type EachFilter, type SaidReport, sayToEach } from './recovery/say-to-each.ts'
import { createSettleWatch } from './recovery/settle-watch.ts'
import { createTracker } from './recovery/track.ts'
import { openStore } from './store/open-store.ts'
import type { CallerClient, CallerConnection, Store, StoreProbe } from './store/store.ts'
import type { NewDeadline, Resolution, Saying } from './store/views.ts'
import { createTargetRegistry } from './target/registry.ts'
import type { Target } from './target/target.ts'
import { watchCommits } from './watch/commits.ts'
import { createEventFeed } from './watch/event-feed.ts'
import { createWaitFor } from './watch/wait-for.ts'

const LIST_LIMIT = 100

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
  readonly openStore?: typeof openStore
  readonly store?: (store: Store) => Store
  readonly target?: (target: Target) => Target
  readonly random?: () => number
}

/** @internal `openOnceish` for tests. */
export async function composeOnceish(options: OpenOptions, seams: Seams = {}): Promise<Onceish> {
  if (typeof options !== 'object' || options === null) {
    throw new OnceishError('CONFIG_INVALID', 'openOnceish takes { store, targets } or { config }')
  }
  if ('config' in options) checkedSettings(options)
  const log = options.log ?? SILENT
  const random = seams.random ?? Math.random
  const config = configOf(options)
  const opening = {
    create: options.create ?? true,
    now: (options.clock ?? systemClock).wallNow(),
    probe: seams.probe,
    isTimeGiven: options.clock !== undefined,
    stateFolder: config.worker.stateFolder,
    name: config.worker.name,
  }
  const opened = await (seams.openStore ?? openStore)(config.store, opening)
  // Where the store has a clock of its own, it is that of everybody who works on it.
  const clock = options.clock ?? opened.clock ?? systemClock
  const now = () => clock.wallNow()
  const store = seams.store?.(opened) ?? opened
  const env = readEnvironment()
  const { namespace: ownNamespace, location } = await store.facts()
  const registry = createTargetRegistry(
    { described: Object.values(config.targets), coded: Object.values(config.codeTargets) },
    { env, accountSalt: ownNamespace, seam: seams.target },
  )
  const namespace = config.namespace ?? ownNamespace
  const actor = options.actor ?? 'library'
  const policyOf = (target: string) => registry.get(target)?.policy
  const prepare = createPrepare(registry, namespace, log)
  const rules: RequestRules = {
    now,
    maxPayloadBytes: config.maxPayloadBytes,
    policyOf,
    targetNames: registry.targets.map((target) => target.name),
    schemaOf: (target) => (Object.hasOwn(config.payloads, target) ? config.payloads[target] : undefined),
  }
  // An engine's own clock is everybody's: that it was moved is news to nobody.
  const steady = store.clock === null ? steadyTime(clock) : { ...steadyTime(clock), isNews: () => false }
  const windowClock = async () => {
    const facts = await store.facts()
    return windowClockOf(now(), steady, facts)
  }
  const withOutlook = createOutlook({ registry, now, steady })
  const reconcile = createReconciler({
    registry,
    watch: createSettleWatch(clock),
    clock,
    windowClock,
    leaseMs: config.worker.leaseMs,
    random,
  })
  const commits = watchCommits(store)
  const feed = createEventFeed(store, commits)
  const waitFor = createWaitFor(store, commits, (target) => (policyOf(target)?.tracking ?? null) !== null)
  const workers = new Set<Worker>()
  let isClosing = false
  const word = ({ actor: who, note, ifVersion }: WordOptions = {}) => ({
    now: now(),
    actor: who ?? actor,
    note: note ?? null,
    ifVersion: ifVersion ?? null,
  })

  function start(given: WorkOptions, claimsReady: boolean, otherwise: WorkOptions = {}): Worker {
    const work = { ...otherwise, ...checkedWork(given) }
    if (isClosing) throw new OnceishError('STORE_CLOSED', `the store ${location} is closed`)
    checkConcurrency(work.concurrency)
    const targets = servedTargets(work.targets)
    const serves = targets.map((target) => target.name)
    assertEnvSet(config, env, serves)
    const worker = startWorker({
      store,
      registry,
      serves,
      descriptions: targets.map(({ name, version, description, policy }) => {
        return { name, version, description, bucket: policy.limits.bucket }
      }),
      buckets: config.buckets,
      prepare,
      reconcile,
      track: createTracker(registry),
      clock,
      steady,
      log,
      random,
      ...config.worker,
      ...(work.concurrency === undefined ? {} : { concurrency: work.concurrency }),
      claimsReady,
      drain: work.drain ?? null,
      onProgress: work.onProgress,
      onPlain: feed.tell,
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

  async function sayToMany(filter: EachFilter, saying: Saying, said: EachOptions): Promise<SaidReport> {
    const { ifVersion, ...spoken } = word(said)
    const { dryRun = false, onEach } = said
    return sayToEach(store, filter, { saying, word: spoken, ifVersion, dryRun, policyOf, onEach })
  }

  async function close(): Promise<void> {
    isClosing = true
    await Promise.allSettled([...workers].map((worker) => worker.stop()))
    feed.close()
    await registry.close()
    await store.close()
    commits.close()
  }

  const startRecovery = (work: WorkOptions = {}) => start(work, false, { drain: { horizonMs: DRAIN_HORIZON_MS } })

  return {
    config,
    facts: () => store.facts(),
    enqueue: (request) => enqueue(store, request, rules),
    enqueueMany: (requests) => enqueueMany(store, requests, rules),
    enqueueIn: ((connection: CallerConnection | CallerClient, request: EnqueueRequest) =>
      enqueueIn(store, connection, request, rules)) as Onceish['enqueueIn'],
    enqueueLines: (source, lines) => enqueueLines(store, source, lines, rules),
    startWorker: (work = {}) => start(work, true),
    startRecovery,
    recover: async (work) => startRecovery(work).done,
    dryRun: () => {
      const isAccountUnknown = (target: string) => neededEnv(config, [target]).some((name) => !env[name])
      return dryRun({ store, registry, reconcile, isAccountUnknown, windowClock, now, location })
    },
    origin: () => store.origin(),
    declareRestored: (restored = {}) =>
      declareRestored(
        store,
        {
          ...word(),
          location,
          isKnown: (target) => registry.get(target) !== undefined,
          prepare: (request) => (registry.get(request.target) === undefined ? null : prepare(request)),
        },
        restored,
      ),
    declareMoved: () => declareMoved(store, { ...word(), location }),
    waitFor,
    events: (from) => feed.events(from),
    get: async (requestId) => {
      const detail = await store.get(requestIdOf(requestId))
      return detail === null ? null : withOutlook(detail)
    },
    list: async (filter) => {
      const { limit = LIST_LIMIT, ...only } = checkedFilter(filter)
      return store.list({ ...only, limit })
    },
    orphans: async (limit) => store.orphans(checkedLimit(limit) ?? LIST_LIMIT),
    status: () => store.status(),
    retry: async (requestId, given) => {
      const said = checkedWord('retry', given)
      return store.retry(requestIdOf(requestId), word(said), { ...newDeadline(said), policyOf })
    },
    reprioritize: async (requestId, priority, said) =>
      store.reprioritize(requestIdOf(requestId), checkedPriority(priority), word(checkedWord('word', said))),
    reprioritizeWhere: async (filter, priority, said) =>
      sayToMany(filter, { word: 'reprioritize', priority: checkedPriority(priority) }, checkedWord('each', said)),
    resolve: async (requestId, resolution, given) => {
      const { force = false, ...said } = checkedWord('resolve', given)
      return store.resolve(requestIdOf(requestId), resolutionOf(resolution), word(said), { force, policyOf })
    },
    resolveWhere: async (filter, resolution, given) => {
      const { force = false, ...said } = checkedWord('resolveEach', given)
      return sayToMany(filter, { word: 'resolve', resolution: resolutionOf(resolution), force }, said)
    },
    retryWhere: async (filter, given) => {
      const said = checkedWord('retryEach', given)
      return sayToMany(filter, { word: 'retry', ...newDeadline(said) }, said)
    },
    adoptOrphan: async (orphanId, said) =>
      store.adoptOrphan(orphanIdOf(orphanId), word(checkedWord('word', said)), policyOf),
    dismissOrphan: async (orphanId, said) => store.dismissOrphan(orphanIdOf(orphanId), word(checkedWord('word', said))),
    cancel: async (requestId, said) => store.cancel(requestIdOf(requestId), word(checkedWord('word', said))),
    cancelWhere: async (filter, said) => sayToMany(filter, { word: 'cancel' }, checkedWord('each', said)),
    pause: async (target, reason) => store.pause(checkedName(target), reason ?? null, actor, now()),
    resume: async (target) => store.resume(checkedName(target), actor, now()),
    purge: (what) => purge({ store, now: now(), actor, keepPayloadMs: keptFor(registry.targets) }, what),
    backup: (path, options) => backup(store, path, options, seams.probe),
    close,
  }
}

function newDeadline({ expiresAt }: NewDeadline = {}): NewDeadline {
  if (expiresAt === undefined) return {}
  return { expiresAt: expiresAt === null ? null : checkedInstant('expiresAt', expiresAt) }
}

function resolutionOf(given: Resolution): Resolution {
  const resolution = checkedResolution(given)
  return resolution.kind === 'retry_accepting_duplicates'
    ? { kind: resolution.kind, ...newDeadline(resolution) }
    : resolution
}

const requestIdOf = (id: number) => checkedId('a request id', id)
const orphanIdOf = (id: number) => checkedId('the id of an orphan', id)

/** What is left of the options is the config's: an unknown one is refused there. */
function configOf({ create: _1, clock: _2, log: _3, actor: _4, ...given }: OpenOptions): Config {
  if (!('config' in given)) return configInCode(given, process.cwd())
  return isParsed(given.config) ? given.config : parseConfig(given.config, { path: null, baseDir: process.cwd() })
}

function checkConcurrency(concurrency: number | undefined): void {
  if (concurrency === undefined || (Number.isSafeInteger(concurrency) && concurrency > 0)) return
  throw new OnceishError('USAGE', `concurrency is a whole number of calls, at least 1, not ${String(concurrency)}`)
}

/** How long each target's payloads outlive their settlement, by name. */
function keptFor(targets: readonly Target[]): Record<string, number> {
  return Object.fromEntries(targets.map(({ name, policy }) => [name, policy.keepPayloadMs ?? 0]))
}

/** A raw config has no such key. */
function isParsed(config: Config | Record<string, unknown>): config is Config {
  return 'path' in config
}
