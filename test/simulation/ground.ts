// What a stage stands on: a store of one engine, emptied between schedules, and the watch over it.
import { join } from 'node:path'
import type { Store } from '../../src/store/store.ts'
import type { Library } from './library.ts'
import { type StoreWatch, watchStore } from './store-watch.ts'

/** When every schedule begins. */
export const START = Date.UTC(2030, 0, 1)

export interface Ground {
  /** As a config names it. */
  readonly location: string
  readonly store: Store
  /** Another connection, which hears of the commits of the first. */
  readonly watching: Pick<Store, 'watchChanges'>
  readonly watch: StoreWatch
  /** Waits for what is under way at the store. @returns false: nothing was. */
  readonly rested: () => Promise<boolean>
  close(): Promise<void>
}

export type OpenGround = (library: Library, folder: string) => Promise<Ground>

export async function openFileGround(library: Library, folder: string): Promise<Ground> {
  const location = join(folder, 'simulation.db')
  const store = await library.openStore(location, { create: true, now: START })
  const watch = watchStore(location)
  const watching = await library.openStore(location, { create: false, now: START })
  return {
    location,
    store,
    watching,
    watch,
    // A file's store has done what it was asked before it gives its promise back.
    rested: async () => false,
    close: async () => {
      watch.close()
      await watching.close()
      await store.close()
    },
  }
}
