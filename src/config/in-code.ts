// A config given in code: its targets come as a list, typed by their names and payloads.
import { OnceishError } from '../core/errors.ts'
import type { CodeTarget, Duration, RateDescription } from './code-target.ts'
import type { Config } from './config.ts'
import type { DescribedTarget } from './described-target.ts'
import { parseConfig } from './options.ts'

/** From `defineTarget` or `httpTarget`. */
export type GivenTarget = CodeTarget | DescribedTarget

/** What all the targets that name a bucket may do together. */
export interface BucketDescription {
  readonly concurrency?: number
  readonly rate?: RateDescription
}

/** The options of a config, its targets as a list. */
export interface TargetsInCode<Targets extends readonly GivenTarget[]> {
  /** Path of the SQLite file; relative to the working directory. */
  readonly store: string
  /** From `defineTarget` and `httpTarget`, side by side. */
  readonly targets: Targets
  readonly worker?: {
    readonly name?: string
    /** Calls at a time, default 64. */
    readonly concurrency?: number
    /** Default 60 s; at least every target's `timeoutMs` + 500. */
    readonly leaseMs?: Duration
    /** How long a stopping worker waits for its calls, default 25 s. */
    readonly graceMs?: Duration
    /** Where answers are kept that a store on PostgreSQL does not take; default `.onceish` in the working directory. */
    readonly stateFolder?: string
  }
  /** Limits that targets share, by the name that their `limits.bucket` says. */
  readonly buckets?: Readonly<Record<string, BucketDescription>>
  /** Part of idempotency keys; default a random one of the store's own. */
  readonly namespace?: string
  /** Default 1 MiB. */
  readonly maxPayloadBytes?: number
}

/** Payload by target, as `enqueue` takes it. */
export type PayloadsOf<Targets extends readonly GivenTarget[]> = {
  readonly [Given in Targets[number] as Given['name']]: Given extends { readonly payloadInput?: infer Payload }
    ? Payload
    : unknown
}

/** @param given nothing but the options of a config. @throws OnceishError CONFIG_INVALID */
export function configInCode(given: TargetsInCode<readonly GivenTarget[]>, baseDir: string): Config {
  if (!Array.isArray(given.targets)) throw new OnceishError('CONFIG_INVALID', 'targets: expected a list of targets')
  return parseConfig(given, { path: null, baseDir })
}
