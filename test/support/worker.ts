// A worker put together by hand, for tests that must stand between it and its store or its clock.
import { parseConfig } from '../../src/config/options.ts'
import { startWorker, type Worker, type WorkerOptions } from '../../src/consumer/worker.ts'
import { systemClock } from '../../src/core/clock.ts'
import { SILENT } from '../../src/core/log.ts'
import { createReconciler } from '../../src/recovery/reconcile.ts'
import { createSettleWatch } from '../../src/recovery/settle-watch.ts'
import { createTracker } from '../../src/recovery/track.ts'
import type { Store } from '../../src/store/store.ts'
import { createTargetRegistry } from '../../src/target/registry.ts'
import type { RawConfig } from './api.ts'

export interface HandMadeWorker extends Worker {
  closeTargets(): Promise<void>
}

export function handMadeWorker(store: Store, config: RawConfig, options: Partial<WorkerOptions> = {}): HandMadeWorker {
  const { targets, worker } = parseConfig(config, { path: null, baseDir: '/' })
  const registry = createTargetRegistry(Object.values(targets), { env: {} })
  const clock = options.clock ?? systemClock
  const reconcile = createReconciler({
    registry,
    watch: createSettleWatch(clock),
    clock,
    windowClock: () => ({ wall: clock.wallNow(), latest: clock.wallNow(), highWaterAt: 0 }),
    leaseMs: worker.leaseMs,
    random: Math.random,
  })
  const started = startWorker({
    store,
    targets: registry.targets,
    targetAt: (name, version) => registry.at(name, version, null),
    prepare: (request) => {
      const target = registry.get(request.target)
      if (target === undefined) throw new Error(`no target ${request.target}`)
      const { payload, logicalHash, generation, requestId, priority } = request
      const key = target.keyFor({ namespace: 'test', logicalHash, generation })
      const call = target.prepare({ payload, key, request: { requestId, logicalHash, generation, priority } })
      return { kind: 'prepared', key, call, targetVersion: target.version }
    },
    reconcile,
    track: createTracker(registry),
    clock,
    log: SILENT,
    name: 'test',
    concurrency: worker.concurrency,
    leaseMs: worker.leaseMs,
    graceMs: worker.graceMs,
    claimsReady: true,
    drain: null,
    ...options,
  })
  return { ...started, closeTargets: () => registry.close() }
}
