// The one door to a store that is elsewhere: whoever asks it waits until the one before has heard, and nobody sets out before all
// that goes on by itself has come to rest. So the order in which a server answers decides nothing, and a schedule is played again by
// its number. What two transactions do to each other that run at once it cannot show: test/postgres does.
import type { Store } from '../../src/store/store.ts'
import { hop } from './schedule.ts'

export interface Gate {
  pass<T>(work: () => Promise<T>): Promise<T>
  /** Waits until nobody is inside. @returns false: nobody was. */
  rested(): Promise<boolean>
}

export function createGate(): Gate {
  let last: Promise<unknown> = Promise.resolve()
  let inside = 0
  return {
    pass: (work) => {
      inside++
      const made = last.then(hop).then(work)
      last = made
        .catch(() => {})
        .finally(() => {
          inside--
        })
      return made
    },
    rested: async () => {
      if (inside === 0) return false
      while (inside > 0) await last
      return true
    },
  }
}

/** What comes back at once. */
const AT_ONCE: ReadonlySet<string> = new Set(['watchChanges', 'watchCommits', 'onCommit', 'onWork', 'filesOf', 'close'])

/** The same store, with each question going through the gate. @param heard after each, before whoever asked hears. */
export function gated(store: Store, gate: Gate, heard: () => Promise<void>): Store {
  const ask =
    (method: (...given: unknown[]) => Promise<unknown>) =>
    (...given: unknown[]) =>
      gate.pass(() => method(...given).finally(heard))
  return Object.fromEntries(
    Object.entries(store).map(([name, value]) => [
      name,
      typeof value !== 'function' || AT_ONCE.has(name) ? value : ask(value as Parameters<typeof ask>[0]),
    ]),
  ) as unknown as Store
}
