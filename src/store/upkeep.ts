// The words of maintenance: what a purge asks for, what a copy holds and has forgotten, how large the log is.
import type { ForgottenTime } from '../core/forgotten-call.ts'
import type { EndedState } from '../core/task-state.ts'
import type { Claimable, Preparation } from './turn.ts'

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

/** What a store put back from a copy may have called since is put in doubt. */
export interface DoubtOrder extends ForgottenTime {
  readonly actor: string
  /** Of what is queued: the bytes that a forgotten call sent, as far as the config is still the same. */
  readonly prepare: (request: Claimable) => Preparation | null
  /** Says what would be doubted, and writes nothing. */
  readonly dryRun: boolean
}

export interface ForgottenSlice {
  /** By target. */
  readonly doubted: Readonly<Record<string, number>>
  /** Scheduled for later than any call that was made. */
  readonly kept: number
  /** The next slice begins after this request. */
  readonly lastId: number
  readonly done: boolean
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
