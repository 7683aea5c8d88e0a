// A worker over a store that a test stands in.
import type { WorkOptions } from '../../src/api.ts'
import type { Worker } from '../../src/consumer/worker.ts'
import { composeOnceish } from '../../src/onceish.ts'
import type { Store } from '../../src/store/store.ts'
import type { RawConfig } from './api.ts'

/** `close` stops it and ends its targets' connections; the store stays the test's. */
export async function workOver(
  store: Store,
  config: RawConfig,
  work: WorkOptions = {},
): Promise<Worker & { close(): Promise<void> }> {
  const once = await composeOnceish({ config }, { openStore: async () => ({ ...store, close: async () => {} }) })
  return { ...once.startWorker(work), close: () => once.close() }
}
