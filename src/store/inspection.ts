// What can be found out of a store from outside, whatever state it is in: nothing is made, migrated or repaired, and what
// cannot be read is said instead of thrown.
import type { TaskState } from '../core/task-state.ts'
import type { StoreOrigin } from './origin.ts'
import type { StoreStatus } from './views.ts'

export interface StoreInspection {
  readonly path: string
  readonly folder: FolderFacts | null
  /** Those that are there, the database first. */
  readonly files: readonly FileFacts[]
  readonly engine: string
  /** Of a store on a server that was reached; absent: it is a file. */
  readonly server?: ServerFacts | null
  readonly database: DatabaseInspection
}

export interface ServerFacts {
  readonly version: string
  /** What it commits is on its disk. */
  readonly isSynced: boolean
  readonly writesWholePages: boolean
  readonly isStandby: boolean
  readonly isReadOnly: boolean
  /** Its clock, UTC epoch ms. */
  readonly now: number
}

export interface FolderFacts {
  readonly path: string
  readonly mode: number
  readonly isWritable: boolean
  /** As statfs(2) has it. */
  readonly fileSystemType: number
  readonly freeBytes: number
}

export interface FileFacts {
  readonly path: string
  readonly mode: number
  readonly bytes: number
  readonly isWritable: boolean
}

export type DatabaseInspection =
  | { readonly kind: 'missing' }
  /** `code` is of `ERROR_CODES`. */
  | { readonly kind: 'unreadable'; readonly code: string; readonly message: string }
  /** A database without our tables. */
  | { readonly kind: 'empty' }
  | ({ readonly kind: 'read' } & DatabaseFacts)

export interface DatabaseFacts {
  readonly schemaVersion: number
  /** What this release writes. */
  readonly knownSchemaVersion: number
  readonly journalMode: string
  /** A commit of ours waits until it is on disk. */
  readonly isSynced: boolean
  readonly highWaterAt: number
  /** How far the store knows its clock to have been set back. */
  readonly clockAheadMs: number
  /** Null where the schema is not this release's. */
  readonly origin: StoreOrigin | null
  /** The latest instant in the newest rows. */
  readonly newestRowAt: number | null
  readonly bytes: number
  readonly freeBytes: number
  readonly log: { readonly bytes: number; readonly boundBytes: number; readonly isHeld: boolean }
  readonly integrity:
    | { readonly kind: 'ok' }
    | { readonly kind: 'skipped'; readonly boundBytes: number }
    | { readonly kind: 'damaged'; readonly found: string }
  /** Answers on this machine's disk that no store has taken. */
  readonly spills: readonly SpillFacts[]
  /** Null where the schema is not this release's, or the tables cannot be read. */
  readonly work: WorkFacts | null
}

export interface SpillFacts {
  readonly path: string
  /** Answers that the next worker takes over. */
  readonly answers: number
  /** Requests whose answers are of the time before the store was put back from a copy. */
  readonly formerRequests: readonly number[]
}

export interface WorkFacts {
  readonly status: StoreStatus
  /** In doubt, a bounded number of each state. */
  readonly doubt: readonly { readonly row: TaskState; readonly description: string | null }[]
  /** By target, when anything of it that was ever called has changed last. */
  readonly lastChangeAt: Readonly<Record<string, number>>
}

export interface InspectOptions {
  readonly now: number
  /** Looks at every page, however large the file is. */
  readonly isFull: boolean
  /** As `OpenStoreOptions` has it. */
  readonly stateFolder?: string | undefined
}
