// What a worker knows, between two turns, of work to be done: what it was told, what a turn left, and what comes due.
import type { Change } from '../store/store.ts'
import type { TurnResult } from '../store/turn.ts'

export interface Agenda {
  /** Of many targets, where the last turn ended its look at them. */
  readonly lookFrom: string | null
  /** Somebody says that there may be work. */
  note(): void
  /** Of what others have committed. What this process knows of may be earlier; a turn finds out. */
  hear(change: Change): void
  /** A turn begins: whoever makes work while it runs is heard after it. `claims`: it looks for what is ready. */
  begin(turn: { readonly claims: boolean }): void
  /** It has ended so. */
  end(result: TurnResult, turn: { readonly claims: boolean }): void
  /** @param now epoch ms; @param hasSlot whether a call may begin. */
  isDue(now: number, hasSlot: boolean): boolean
  /** Milliseconds until something comes due; null: nothing that is known of. */
  untilDueMs(now: number): number | null
}

/** @param claimsReady false: a recovery, to which what is ready is nothing. */
export function createAgenda(claimsReady: boolean): Agenda {
  let mayHaveWork = true
  /** The last claim ended at its bound: of no use before a slot is free, unlike other work. */
  let mayHaveReady = false
  let lookFrom: string | null = null
  let nextDueAt: number | null = null

  return {
    get lookFrom() {
      return lookFrom
    },
    note: () => {
      mayHaveWork = true
    },
    hear: (change) => {
      if (change.nextDueAt !== null) nextDueAt = Math.min(nextDueAt ?? change.nextDueAt, change.nextDueAt)
      if (change.work) mayHaveWork = true
    },
    begin: ({ claims }) => {
      // What is ready is looked for once a slot is free.
      if (claimsReady && !claims && mayHaveWork) mayHaveReady = true
      mayHaveWork = false
    },
    end: (result, { claims }) => {
      mayHaveWork ||= result.more
      if (claims) {
        mayHaveReady = result.moreReady
        lookFrom = result.lookedThrough
      }
      nextDueAt = result.nextDueAt
    },
    isDue: (now, hasSlot) => (mayHaveReady && hasSlot) || mayHaveWork || (nextDueAt !== null && nextDueAt <= now),
    untilDueMs: (now) => (nextDueAt === null ? null : nextDueAt - now),
  }
}
