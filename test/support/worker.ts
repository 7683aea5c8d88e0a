// A worker put together by hand, for tests that must stand between it and its store or its clock.
import { parseConfig } from '../../src/config/options.ts'
import { createPrepare } from '../../src/consumer/prepare.ts'
import { startWorker, type Worker, type WorkerOptions } from '../../src/consumer/worker.ts'
import { latestWall, systemClock } from '../../src/core/clock.ts'
import { SILENT } from '../../src/core/log.ts'
import { createReconciler } from '../../src/recovery/reconcile.ts'
import { createSettleWatch } from '../../src/recovery/settle-watch.ts'
import { createTracker } from '../../src/recovery/track.ts'
import type { Store } from '../../src/store/store.ts'
import { createTargetRegistry } from '../../src/target/registry.ts'
import type { RawConfig } from './api.ts'

interface HandMadeWorker extends Worker {
  closeTargets(): Promise<void>
}

export function handMadeWorker(store: Store, config: RawConfig, options: Partial<WorkerOptions> = {}): HandMadeWorker {
  const { targets, worker } = parseConfig(config, { path: null, baseDir: '/' })
  const registry = createTargetRegistry({ described: Object.values(targets) }, { env: {} })
  const clock = options.clock ?? systemClock
  const latestNow = latestWall(clock)
  const reconcile = createReconciler({
    registry,
    watch: createSettleWatch(clock),
    clock,
    windowClock: async () => ({ wall: clock.wallNow(), latest: latestNow(), highWaterAt: 0 }),
    leaseMs: worker.leaseMs,
    random: Math.random,
  })
  const started = startWorker({
    store,
    registry,
    serves: registry.targets.map((target) => target.name),
    descriptions: [],
    prepare: createPrepare(registry, 'test', SILENT),
    reconcile,
    track: createTracker(registry),
    clock,
    latestNow,
    log: SILENT,
    random: Math.random,
    ...worker,
    claimsReady: true,
    drain: null,
    ...options,
  })
  return { ...started, closeTargets: () => registry.close() }
}
