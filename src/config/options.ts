// The whole config from what people wrote: options and their defaults, every target, and all faults of both at once.
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { z } from 'zod'
import { OnceishError } from '../core/errors.ts'
import type { PayloadSchema } from '../core/payload-schema.ts'
import { isShared } from '../core/store-address.ts'
import { didYouMean } from '../core/suggest.ts'
import { bucketSchema } from './care-schema.ts'
import type { CodeTargetDefinition } from './code-target-schema.ts'
import type { Config } from './config.ts'
import { readEnvironment } from './environment.ts'
import { configInvalid, type Fault, faultsOf } from './faults.ts'
import { checkTarget, NAME, NO_NAME, namedTargets, type ReadTarget } from './read-target.ts'
import { leaseFaults, type TimedCall } from './safety.ts'
import { duration, section, whole } from './schema-parts.ts'
import type { CareDefinition, TargetDefinition } from './target-definition.ts'

const MIB = 1_048_576

const workerSchema = section({
  name: z
    .string()
    .min(1)
    .max(100)
    .default(() => hostname() || 'worker'),
  concurrency: whole(1, 100_000).default(64),
  leaseMs: duration({ min: 1000 }).default(60_000),
  graceMs: duration().default(25_000),
  stateFolder: z.string().min(1).default('.onceish'),
})

const optionsSchema = section({
  store: z.string().min(1).default('./onceish.db'),
  namespace: z.string().min(1).max(200).optional(),
  maxPayloadBytes: whole(1, 1024 * MIB).default(MIB),
  worker: workerSchema.prefault({}),
  buckets: z.record(z.string().regex(NAME, NO_NAME), bucketSchema).default({}),
  targets: z.record(z.string(), z.unknown()).default({}),
})

export interface ConfigPlace {
  /** Absolute; null for a config given in code. */
  readonly path: string | null
  /** What a relative `store` is relative to. */
  readonly baseDir: string
}

/** @returns the config, frozen. Throws OnceishError CONFIG_INVALID with every fault, a line each. */
export function parseConfig(written: unknown, place: ConfigPlace): Config {
  const raw = withNamedTargets(written)
  const parsed = optionsSchema.safeParse(raw ?? {}, { reportInput: true })
  const optionFaults = parsed.success ? [] : faultsOf(parsed.error)
  const targets = Object.entries(sectionOf(raw, 'targets')).map(([name, written]) => checkTarget(name, written))
  const definitions = targets.flatMap(({ described }) => described ?? [])
  const codes = targets.flatMap(({ coded }) => coded ?? [])
  const faults = [
    ...optionFaults,
    ...leaseFaultsOf(raw, [...definitions.map(describedCall), ...codes.map(codedCall)]),
    ...bucketFaults(raw, [...definitions, ...codes.map(({ name, care }) => ({ name, ...care, isCode: true }))]),
    ...targets.flatMap((target) => target.faults),
  ]
  if (!parsed.success || faults.length > 0) throw configInvalid(faults, place.path)
  const { store, namespace, maxPayloadBytes, worker, buckets } = parsed.data
  return Object.freeze({
    path: place.path,
    store: storeOf(store, place.baseDir),
    namespace: namespace ?? null,
    maxPayloadBytes,
    worker: Object.freeze({ ...worker, stateFolder: resolve(place.baseDir, worker.stateFolder) }),
    buckets: freezeDeeply(buckets),
    targets: freezeDeeply(Object.fromEntries(definitions.map((definition) => [definition.name, definition]))),
    // Schemas and functions are the user's own: nothing of them is frozen.
    codeTargets: Object.freeze(Object.fromEntries(codes.map((code) => [code.name, code]))),
    payloads: Object.freeze(Object.fromEntries(targets.flatMap(payloadEntry))),
  })
}

/** A program may give its targets as a list. */
function withNamedTargets(written: unknown): unknown {
  const targets = (written as { readonly targets?: unknown } | null | undefined)?.targets
  return Array.isArray(targets) ? { ...(written as object), targets: namedTargets(targets) } : written
}

/** Judged although other options may be faulty. */
function leaseFaultsOf(raw: unknown, calls: readonly TimedCall[]): Fault[] {
  const worker = workerSchema.safeParse(sectionOf(raw, 'worker'))
  return worker.success ? leaseFaults(worker.data.leaseMs, calls) : []
}

/** Names alone are judged here: the buckets' own faults are the options'. */
function bucketFaults(raw: unknown, targets: readonly Bucketed[]): Fault[] {
  const known = Object.keys(sectionOf(raw, 'buckets'))
  return targets.flatMap(({ name, limits: { bucket }, rateLimit, isCode }) => {
    const place = isCode ? `targets.${name}.policy` : `targets.${name}`
    if (bucket === undefined && rateLimit?.scope === 'bucket')
      return [{ path: `${place}.rateLimit.scope`, message: 'is bucket, and the target names none; add limits.bucket' }]
    if (bucket === undefined || known.includes(bucket)) return []
    const hint =
      didYouMean(bucket, known) || (known.length === 0 ? '; there are none' : `; known are ${known.join(', ')}`)
    return [{ path: `${place}.limits.bucket`, message: `buckets names no ${JSON.stringify(bucket)}${hint}` }]
  })
}

type Bucketed = Pick<CareDefinition, 'limits' | 'rateLimit'> & { readonly name: string; readonly isCode?: boolean }

function describedCall({ name, submit }: TargetDefinition): TimedCall {
  return { path: `targets.${name}.submit.timeoutMs`, timeoutMs: submit.timeoutMs }
}

function codedCall({ name, policy }: CodeTargetDefinition): TimedCall {
  return { path: `targets.${name}.policy.timeoutMs`, timeoutMs: policy.timeoutMs }
}

function payloadEntry({ name, payload }: ReadTarget): [string, PayloadSchema][] {
  return payload === null ? [] : [[name, payload]]
}

/** An absolute path, or a URL as it is. @throws OnceishError CONFIG_INVALID, ENV_MISSING */
export function storeOf(written: string, baseDir: string): string {
  const store = fromEnvironment(written)
  if (isShared(store)) return store
  const [, scheme] = /^([a-z][a-z0-9+.-]*):\/\//i.exec(store) ?? []
  // What follows it is not said: it may hold a password.
  if (scheme !== undefined)
    throw new OnceishError(
      'CONFIG_INVALID',
      `store: there is no engine for ${scheme}://: a file path, or a postgres:// URL`,
    )
  if (/^(:memory:|file:)/.test(store)) {
    throw new OnceishError(
      'CONFIG_INVALID',
      `store: ${store} is no file path: what is not on disk cannot survive a kill`,
    )
  }
  return resolve(baseDir, store)
}

/** A URL with a password in it belongs there; nothing else of it is computed. */
function fromEnvironment(written: string): string {
  if (!written.includes('{%')) return written
  const [, name] = /^\s*\{%\s*\$env\.([A-Za-z_][A-Za-z0-9_]*)\s*%\}\s*$/.exec(written) ?? []
  if (name === undefined)
    throw new OnceishError('CONFIG_INVALID', 'store: a path, a postgres:// URL, or "{% $env.NAME %}" alone')
  const store = readEnvironment()[name]
  if (store) return store
  throw new OnceishError('ENV_MISSING', `not set in the environment:\n${name} (needed by store)`, {
    details: { names: [name] },
  })
}

function sectionOf(raw: unknown, name: string): object {
  const value = typeof raw === 'object' && raw !== null ? (raw as Record<string, unknown>)[name] : null
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
}

function freezeDeeply<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const item of Object.values(value)) freezeDeeply(item)
  return Object.freeze(value)
}
