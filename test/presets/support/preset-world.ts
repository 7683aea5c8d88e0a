// A preset as it stands in its file, but for the host, which is the fake's, and the times that only say how patient to be.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished, vi } from 'vitest'
import { parse } from 'yaml'
import { readEnvironment } from '../../../src/config/environment.ts'
import { parseConfig } from '../../../src/config/options.ts'
import { createPrepare } from '../../../src/consumer/prepare.ts'
import { steadyTime, systemClock } from '../../../src/core/clock.ts'
import { SILENT } from '../../../src/core/log.ts'
import { type Onceish, openOnceish } from '../../../src/index.ts'
import { openStore } from '../../../src/store/open-store.ts'
import { createTargetRegistry } from '../../../src/target/registry.ts'
import { ALIKE } from '../../support/alike.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { FakeApi } from './fake-api.ts'
import type { PresetCase } from './preset-case.ts'

export const FOLDER = new URL('../../../fixtures/targets/', import.meta.url)

interface PresetWorld {
  readonly once: Onceish
  readonly fake: FakeApi
  /** Works until nothing is owed. */
  drain(): Promise<void>
  /** A worker makes the one call and dies before it can record the answer. */
  crashAfterCall(): Promise<void>
}

export function presetText(name: string): string {
  return readFileSync(new URL(`${name}.yaml`, FOLDER), 'utf8')
}

/** With one request enqueued. */
export async function openPreset(preset: PresetCase, options: { deadlineMs?: number } = {}): Promise<PresetWorld> {
  const fake = new FakeApi(preset.contract)
  await fake.start()
  for (const [name, value] of Object.entries(preset.env)) vi.stubEnv(name, value)
  const config = { ...impatient(preset, fake.origin, options), store: join(tempDir(), 'jobs.db') }
  const once = await openOnceish({ config })
  onTestFinished(async () => {
    await once.close()
    const unhandled = await fake.stop()
    vi.unstubAllEnvs()
    if (unhandled.length > 0) throw new Error(`the fake met what its contract does not describe: ${unhandled}`)
  })
  await once.enqueue({ target: preset.target, payload: preset.payload })
  return {
    once,
    fake,
    drain: async () => {
      const worker = await once.startWorker({ drain: { horizonMs: 60_000 } })
      await worker.done
    },
    crashAfterCall: () => crashAfterCall(config),
  }
}

interface RawPreset {
  readonly targets: Readonly<Record<string, Readonly<Record<string, object>>>>
}

function impatient({ name, contract }: PresetCase, origin: string, { deadlineMs }: { deadlineMs?: number }) {
  const raw = parse(presetText(name).replaceAll(contract.origin, origin)) as RawPreset
  const targets = Object.entries(raw.targets).map(([target, rules]) => {
    const { retry, lookup, status } = rules
    const patience = {
      retry: { ...retry, initialMs: 20, maxMs: 60 },
      ...(lookup && { lookup: { ...lookup, settleMs: 150, everyMs: 30 } }),
      ...(status && { status: { ...status, everyMs: 30 } }),
      ...(deadlineMs && { deadlineMs }),
    }
    return [target, { ...rules, ...patience }] as const
  })
  return { ...raw, targets: Object.fromEntries(targets) }
}

async function crashAfterCall(config: { readonly store: string }): Promise<void> {
  const { targets } = parseConfig(config, { path: null, baseDir: '/' })
  const store = await openStore(config.store, { create: false, now: Date.now() })
  const { namespace } = await store.facts()
  const registry = createTargetRegistry(
    { described: Object.values(targets) },
    { env: readEnvironment(), accountSalt: namespace },
  )
  const { calls } = await store.turn({
    now: () => Date.now() - 10_000, steady: steadyTime(systemClock), worker: { name: 'dead', boot: 'dead' }, leaseMs: 1000,
    results: [], renewals: [], reconciliations: [], trackings: [], check: { slots: 0, room: new Map() },
    policyOf: (name) => registry.get(name)?.policy, random: Math.random,
    claim: { ...ALIKE, slots: 1, targets: registry.targets, prepare: createPrepare(registry, namespace, SILENT) },
  }) // biome-ignore format: one turn of a worker that dies
  for (const { target, prepared, payload, key, ...request } of calls) {
    await registry.get(target)?.invoke(prepared, { input: { payload, key, request }, gate: () => null })
  }
  await registry.close()
  await store.close()
}
