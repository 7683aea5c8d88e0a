// The words of maintenance: what a purge asks for, what a copy holds, how large the log is.
import type { EndedState } from '../core/task-state.ts'

/** Which ended requests a purge asks for. */
export interface PurgeScope {
  /** Last changed at or before this instant. */
  readonly before: number
  readonly states: readonly EndedState[]
  /** Null: of every target. */
  readonly targets: readonly string[] | null
  /** Those too that a person abandoned in doubt. */
  readonly abandoned: boolean
}

/** Why a row that was asked for stays. */
export type KeptReason = 'inDoubt' | 'tracked' | 'tooRecent' | 'abandoned' | 'orphan'

export interface PurgeBatch {
  readonly purged: Readonly<Partial<Record<EndedState, number>>>
  readonly kept: Readonly<Partial<Record<KeptReason, number>>>
  /** The next batch begins after this request. */
  readonly lastId: number
  /** The highest request there was: for a progress bar, and where the walk ends. */
  readonly highestId: number
  readonly done: boolean
}

export interface PurgeWord {
  readonly now: number
  readonly actor: string
  /** Says what would go, and writes nothing. */
  readonly dryRun: boolean
}

/** How a copy is watched and ended. */
export interface BackupOptions {
  /** Ends the copying; the error is its reason. */
  readonly signal?: AbortSignal
  /** After each step of the copy. */
  readonly onProgress?: (progress: { readonly copiedPages: number; readonly pages: number }) => void
}

/** What a verified copy holds. */
export interface BackupCopy {
  readonly pages: number
  readonly schemaVersion: number
  readonly incarnation: string
  readonly highWaterAt: number
  /** Rows of each table. */
  readonly rows: Readonly<Record<string, number>>
}

export interface LogSize {
  /** Of the files that the engine writes ahead; 0 where it has none of ours to keep. */
  readonly bytes: number
  /** Beyond its bound, and somebody who reads keeps it from shrinking. */
  readonly isHeld: boolean
}
