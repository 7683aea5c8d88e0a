// What a stage stands on: a store of one engine, emptied between schedules, and the watch over it.
import { join } from 'node:path'
import type { Store } from '../../src/store/store.ts'
import type { TurnInput, TurnResult } from '../../src/store/turn.ts'
import type { Chance } from './chance.ts'
import type { Library } from './library.ts'
import type { Life, Schedule } from './schedule.ts'
import { type StoreWatch, watchStore } from './store-watch.ts'

/** When every schedule begins. */
export const START = Date.UTC(2030, 0, 1)

/** What is told of a turn while it runs. */
export interface TurnTold {
  /** What it has made is about to be there for others. */
  atCommit(): void
  /** Its result may never be heard, though it is there for others. */
  isInDoubt(): void
}

export interface Ground {
  /** As a config names it. */
  readonly location: string
  /** As the world asks it, which waits for what it asks. */
  readonly store: Store
  /** As a process asks it. */
  storeOf(life: Life): Store
  /** @param life null: the world's. */
  turn(life: Life | null, input: TurnInput, told: TurnTold): Promise<TurnResult>
  readonly watch: StoreWatch
  /** Transactions of several processes run at once. */
  readonly takesCrowds: boolean
  /** For the next schedule. @param crowd draws what happens between transactions; null: they run one after the other. */
  begin(schedule: Schedule, crowd: Chance | null): void
  /** From here on nothing fails. */
  calm(): void
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
    turn: (_, input, { atCommit }) => {
      atCommit()
      return store.turn(input)
    },
    watch,
    takesCrowds: false,
    begin: () => {},
    calm: () => {},
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
