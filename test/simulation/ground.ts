// What a stage stands on: a store of one engine, emptied between schedules, and the watch over it.
import { join } from 'node:path'
import type { Store } from '../../src/store/store.ts'
import type { TurnInput, TurnResult } from '../../src/store/turn.ts'
import type { Library } from './library.ts'
import type { Life, Schedule } from './schedule.ts'
import { type StoreWatch, watchStore } from './store-watch.ts'

/** When every schedule begins. */
export const START = Date.UTC(2030, 0, 1)

export interface Ground {
  /** As a config names it. */
  readonly location: string
  /** As the world asks it, which waits for what it asks. */
  readonly store: Store
  /** As a process asks it. */
  storeOf(life: Life): Store
  /** @param life null: the world's. @param atCommit is told right before what the turn has made is there for others. */
  turn(life: Life | null, input: TurnInput, atCommit: () => void): Promise<TurnResult>
  readonly watch: StoreWatch
  /** For the next schedule. @param isCrowded transactions of several processes run at once, where the engine can. */
  begin(schedule: Schedule, isCrowded: boolean): void
  /** Transactions that are under way come to their end. */
  finish(): Promise<void>
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
    // Another connection, which hears of the commits of the first.
    storeOf: () => ({ ...store, watchChanges: watching.watchChanges }),
    turn: (_, input, atCommit) => {
      atCommit()
      return store.turn(input)
    },
    watch,
    begin: () => {},
    finish: async () => {},
    // A file's store has done what it was asked before it gives its promise back.
    rested: async () => false,
    close: async () => {
      watch.close()
      await watching.close()
      await store.close()
    },
  }
}
