// Lets calls out only of a store that made its calls itself, and keeps the record by which that is told.
import { randomUUID } from 'node:crypto'
import { type OwnFacts, type OwnWord, originOf, refuseForeign, type StoreOrigin } from '../origin.ts'
import { recordBeside } from './call-record.ts'
import { readFacts } from './queries.ts'
import type { Statements } from './statements.ts'

export interface CallGate {
  origin(own: OwnFacts): StoreOrigin
  /** Inside the transaction that claims. @throws OnceishError STORE_RESTORED, STORE_MOVED, STORE_UNWRITABLE */
  admit(own: OwnFacts): void
  /** After its commit, before its calls. @throws OnceishError STORE_UNWRITABLE: then nothing may be called */
  record(): void
  /** Inside the transaction of a person's word; `restart` after its commit. */
  declareOwn(kind: OwnWord, now: number): void
  restart(): void
}

export function createCallGate(sql: Statements, realPath: string): CallGate {
  const file = recordBeside(realPath)
  const origin = (own: OwnFacts) => originOf(own, file.read(), file.place())
  return {
    origin,
    // Under the write lock: whoever called before has kept its record, or died before it called.
    admit: (own) => {
      const known = file.read()
      refuseForeign(originOf(own, known, file.place()), realPath)
      if (known === null) file.create(own)
    },
    // Another process may have committed and written meanwhile: the last line is the one that the database says.
    record: () => {
      for (let own = readFacts(sql), written = -1; own.highWaterAt !== written; own = readFacts(sql)) {
        file.write(own)
        written = own.highWaterAt
      }
    },
    // Ahead of whatever the record says, so that the same copy put back once more is told again; and a life of its own, so
    // that a later copy of the life before is told too.
    declareOwn: (kind, now) => {
      if (kind === 'store_restored') sql.setIncarnation.run(randomUUID())
      sql.raiseHighWater.run({ by: 1, now: Math.max(now, (file.read()?.highWaterAt ?? 0) + 1) })
    },
    restart: () => file.create(readFacts(sql)),
  }
}
