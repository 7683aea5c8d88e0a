// The product's store driven by turns alone, as a worker drives it: the real `prepare` of a target that is described as data,
// and every call that a turn allows is taken as accepted by the next one. No loop, no HTTP.
import type { AttemptResult } from '../../src/core/settlement.ts'
import type { Store } from '../../src/store/store.ts'
import type { ClaimedCall, TurnInput } from '../../src/store/turn.ts'
import { ALIKE } from '../support/alike.ts'
import { loadModule } from './built.ts'
import { payloadOf, targetOf } from './requests.ts'

export interface DrivenStore {
  readonly store: Store
  /** Requests of the bench, each another, due at once. */
  enqueue(requests: number): Promise<void>
  /**
   * Settles what the turn before claimed, and claims as many as `slots`.
   * @returns how many it settled.
   */
  turn(slots: number): Promise<number>
  close(): Promise<void>
}

export interface Driven {
  readonly path: string
  /** Names of the targets that it describes and serves. */
  readonly targets?: readonly string[]
}

export async function driveStore({ path, targets = ['render'] }: Driven): Promise<DrivenStore> {
  const { parseConfig } = await loadModule<typeof import('../../src/config/options.ts')>('config/options.js')
  const { createPrepare } = await loadModule<typeof import('../../src/consumer/prepare.ts')>('consumer/prepare.js')
  const { steadyTime, systemClock } = await loadModule<typeof import('../../src/core/clock.ts')>('core/clock.js')
  const { SILENT } = await loadModule<typeof import('../../src/core/log.ts')>('core/log.js')
  const { enqueueMany } = await loadModule<typeof import('../../src/producer/enqueue.ts')>('producer/enqueue.js')
  const { openStore } = await loadModule<typeof import('../../src/store/open-store.ts')>('store/open-store.js')
  const { createTargetRegistry } = await loadModule<typeof import('../../src/target/registry.ts')>('target/registry.js')

  const now = () => systemClock.wallNow()
  const described = targets.map((name) => [name, targetOf('http://127.0.0.1:9')])
  const config = parseConfig(
    { store: path, targets: Object.fromEntries(described) as unknown },
    { path: null, baseDir: process.cwd() },
  )
  const store = await openStore(path, { create: true, now: now() })
  const { namespace } = await store.facts()
  const registry = createTargetRegistry(
    { described: Object.values(config.targets) },
    { env: {}, accountSalt: namespace },
  )
  await store.saveDescriptions(registry.targets, now())
  const policyOf = (name: string) => registry.get(name)?.policy
  const input: Omit<TurnInput, 'results' | 'claim' | 'check'> = {
    now,
    worker: { name: 'bench', boot: 'boot' },
    leaseMs: config.worker.leaseMs,
    renewals: [],
    reconciliations: [],
    trackings: [],
    policyOf,
    steady: steadyTime(systemClock),
    random: Math.random,
  }
  const claim = { targets: registry.targets, prepare: createPrepare(registry, namespace, SILENT) }
  const rules = { now, maxPayloadBytes: 1_048_576, policyOf, targetNames: targets, schemaOf: () => undefined }
  let made = 0
  let running: readonly ClaimedCall[] = []
  let lookFrom: string | null = null

  return {
    store,
    enqueue: async (requests) => {
      const batch = Array.from({ length: requests }, () => ({
        target: targets[0] as string,
        payload: payloadOf(++made),
      }))
      await enqueueMany(store, batch, rules)
    },
    turn: async (slots) => {
      const results = running.map((call) => accepted(call, now()))
      const made = await store.turn({
        ...input,
        results,
        claim: { ...ALIKE, ...claim, slots, lookFrom },
        check: { slots: Math.min(16, slots), room: new Map() },
      })
      const lost = made.settled.find(({ state }) => state !== 'submitted')
      if (lost !== undefined) throw new Error(`a request was not settled: ${JSON.stringify(lost)}`)
      running = made.calls
      lookFrom = made.lookedThrough
      return results.length
    },
    close: async () => {
      await registry.close()
      await store.close()
    },
  }
}

function accepted({ requestId, target, attempt, nonce, key }: ClaimedCall, endedAt: number): AttemptResult {
  const evidence = { phase: 'answered', status: 201, rule: 'default' } as const
  const outcome = { kind: 'accepted', taskId: `task-${requestId}`, evidence } as const
  return { requestId, target, attempt, nonce, idempotencyKey: key, outcome, endedAt }
}
