// The whole configuration after parsing: what everything below the edge is handed, frozen.
import type { TargetDefinition } from './target-definition.ts'

export interface WorkerOptions {
  readonly name: string
  readonly concurrency: number
  readonly leaseMs: number
  readonly graceMs: number
}

export interface Config {
  /** Absolute path of the file it came from; null where it was given in code. */
  readonly path: string | null
  /** Absolute path of the SQLite file, or a postgres:// URL. */
  readonly store: string
  /** Overrides the store's random namespace for idempotency keys. */
  readonly namespace: string | null
  readonly maxPayloadBytes: number
  readonly worker: WorkerOptions
  readonly targets: Readonly<Record<string, TargetDefinition>>
}
