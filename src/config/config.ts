// The whole configuration after parsing: what everything below the edge is handed, frozen.
import type { PayloadSchema } from '../core/payload-schema.ts'
import type { Buckets } from '../core/policy.ts'
import type { CodeTargetDefinition } from './code-target-schema.ts'
import type { TargetDefinition } from './target-definition.ts'

/** How this process works its queue, unless `startWorker` is told otherwise. */
export interface WorkerOptions {
  /** What leases and events call it; default the host's name. */
  readonly name: string
  /** Calls at a time. */
  readonly concurrency: number
  /** How long a claim lasts; at least 500 ms longer than the longest call. */
  readonly leaseMs: number
  /** How long a stopping worker waits for its calls. */
  readonly graceMs: number
  /** Absolute path of the folder for answers that a store on a server does not take; made when it is needed. */
  readonly stateFolder: string
}

/** A whole config after parsing, frozen: defaults filled in, durations in ms, paths absolute. */
export interface Config {
  /** Absolute path of the file it came from; null where it was given in code. */
  readonly path: string | null
  /** Absolute path of the SQLite file, or a postgres:// URL. */
  readonly store: string
  /** Overrides the store's random namespace for idempotency keys. */
  readonly namespace: string | null
  /** Of one payload as JSON text, in UTF-8. */
  readonly maxPayloadBytes: number
  readonly worker: WorkerOptions
  /** Limits that targets share, by name. */
  readonly buckets: Buckets
  /** Described as data, by name. */
  readonly targets: Readonly<Record<string, TargetDefinition>>
  /** In code, by name; none in a config that is a data file. */
  readonly codeTargets: Readonly<Record<string, CodeTargetDefinition>>
  /** What targets take, where a schema was given. */
  readonly payloads: Readonly<Record<string, PayloadSchema>>
}

export function targetNames(config: Config): string[] {
  return [...Object.keys(config.targets), ...Object.keys(config.codeTargets)]
}

export function isTargetOf(config: Config, name: string): boolean {
  return Object.hasOwn(config.targets, name) || Object.hasOwn(config.codeTargets, name)
}
