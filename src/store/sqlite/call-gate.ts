// Lets calls out only of a store that made its calls itself, and keeps the record by which that is told.
import { randomUUID } from 'node:crypto'
import { type CallRecord, type OwnFacts, type OwnWord, originOf, refuseForeign, type StoreOrigin } from '../origin.ts'
import { recordBeside } from './call-record.ts'
import { readFacts } from './queries.ts'
import type { Statements } from './statements.ts'

export interface CallGate {
  origin(): StoreOrigin
  /** Inside the transaction that claims. @throws OnceishError STORE_RESTORED, STORE_MOVED, STORE_UNWRITABLE */
  admit(own: OwnFacts): void
  /** After its commit, before its calls. @throws OnceishError STORE_UNWRITABLE: then nothing may be called */
  record(): void
  /** Inside the transaction of a person's word; `restart` after its commit. */
  declareOwn(kind: OwnWord, now: number): void
  restart(): void
  close(): void
}

const LOOKS = 3

export function createCallGate(sql: Statements, realPath: string): CallGate {
  const file = recordBeside(realPath)

  /** What is read while another process writes the line may be half of each: a copy is one however often it is looked at. */
  function lookAgain(own: () => OwnFacts): { readonly known: CallRecord | null; readonly origin: StoreOrigin } {
    for (let looks = 1; ; looks++) {
      // The record first: one that another process writes meanwhile must not be ahead of what was read before it.
      const known = file.read()
      const origin = originOf(own(), known, file.place())
      if (origin.kind === 'own' || looks === LOOKS) return { known, origin }
    }
  }

  return {
    origin: () => lookAgain(() => readFacts(sql)).origin,
    // Under the write lock: whoever called before has kept its record, or died before it called.
    admit: (own) => {
      const { known, origin } = lookAgain(() => own)
      refuseForeign(origin, realPath)
      if (known === null) file.create(own)
      file.open()
    },
    // Another process may have committed and written meanwhile: the last line is the one that the database says.
    record: () => {
      for (let own = readFacts(sql), written = -1; own.highWaterAt !== written; own = readFacts(sql)) {
        file.write(own)
        written = own.highWaterAt
      }
    },
    // Ahead of what its own record says, so that the same copy put back once more is told again; and a life of its own, so
    // that a later copy of the life before is told too.
    declareOwn: (kind, now) => {
      const known = file.read()
      const calledUntil = known?.incarnation === readFacts(sql).incarnation ? known.highWaterAt : 0
      if (kind === 'store_restored') sql.setIncarnation.run(randomUUID())
      sql.raiseHighWater.run({ by: 1, now: Math.max(now, calledUntil + 1) })
    },
    restart: () => file.create(readFacts(sql)),
    close: () => file.close(),
  }
}
