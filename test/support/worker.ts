// Work as tests want it: until nothing is owed, over a store that a test stands in, or only tried.
import type { WorkOptions } from '../../src/api.ts'
import type { Worker } from '../../src/consumer/worker.ts'
import type { DryRunLine, Onceish } from '../../src/index.ts'
import { composeOnceish } from '../../src/onceish.ts'
import type { Store } from '../../src/store/store.ts'
import type { RawConfig } from './api.ts'

/** What comes due within the hour is waited for. */
export const DRAIN = { drain: { horizonMs: 3_600_000 } }

/** `close` stops it and ends its targets' connections; the store stays the test's. */
export async function workOver(
  store: Store,
  config: RawConfig,
  work: WorkOptions = {},
): Promise<Worker & { close(): Promise<void> }> {
  const once = await composeOnceish({ config }, { openStore: async () => ({ ...store, close: async () => {} }) })
  return { ...once.startWorker(work), close: () => once.close() }
}

export async function dryRunOf(once: Pick<Onceish, 'dryRun'>): Promise<DryRunLine[]> {
  const lines: DryRunLine[] = []
  for await (const line of once.dryRun()) lines.push(line)
  return lines
}
