// The whole config from what people wrote: options and their defaults, every target, and all faults of both at once.
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { z } from 'zod'
import { OnceishError } from '../core/errors.ts'
import type { Config } from './config.ts'
import { configInvalid, type Fault, faultsOf } from './faults.ts'
import { leaseFaults, targetFaults } from './safety.ts'
import { duration, section, whole } from './schema-parts.ts'
import type { TargetDefinition } from './target-definition.ts'
import { readTarget } from './target-schema.ts'

const MIB = 1_048_576
const TARGET_NAME = /^[A-Za-z0-9][\w.-]{0,99}$/
const POSTGRES_URL = /^postgres(?:ql)?:\/\//

const workerSchema = section({
  name: z
    .string()
    .min(1)
    .max(100)
    .default(() => hostname() || 'worker'),
  concurrency: whole(1, 100_000).default(64),
  leaseMs: duration({ min: 1000 }).default(60_000),
  graceMs: duration().default(25_000),
})

const optionsSchema = section({
  store: z.string().min(1).default('./onceish.db'),
  namespace: z.string().min(1).max(200).optional(),
  maxPayloadBytes: whole(1, 1024 * MIB).default(MIB),
  worker: workerSchema.prefault({}),
  targets: z.record(z.string(), z.unknown()).default({}),
})

export interface ConfigPlace {
  /** Absolute; null for a config given in code. */
  readonly path: string | null
  /** What a relative `store` is relative to. */
  readonly baseDir: string
}

interface ReadTarget {
  readonly definition: TargetDefinition | null
  readonly faults: readonly Fault[]
}

/** @returns the config, deeply frozen. Throws OnceishError CONFIG_INVALID with every fault, a line each. */
export function parseConfig(raw: unknown, place: ConfigPlace): Config {
  const parsed = optionsSchema.safeParse(raw ?? {}, { reportInput: true })
  const optionFaults = parsed.success ? [] : faultsOf(parsed.error)
  const targets = Object.entries(sectionOf(raw, 'targets')).map(([name, written]) => checkTarget(name, written))
  const definitions = targets.flatMap(({ definition }) => (definition === null ? [] : [definition]))
  const faults = [...optionFaults, ...leaseFaultsOf(raw, definitions), ...targets.flatMap((target) => target.faults)]
  if (!parsed.success || faults.length > 0) throw configInvalid(faults, place.path)
  const { store, namespace, maxPayloadBytes, worker } = parsed.data
  return freezeDeeply({
    path: place.path,
    store: storeOf(store, place.baseDir),
    namespace: namespace ?? null,
    maxPayloadBytes,
    worker,
    targets: Object.fromEntries(definitions.map((definition) => [definition.name, definition])),
  })
}

/** Judged although other options may be faulty. */
function leaseFaultsOf(raw: unknown, definitions: readonly TargetDefinition[]): Fault[] {
  const worker = workerSchema.safeParse(sectionOf(raw, 'worker'))
  return worker.success ? leaseFaults(worker.data.leaseMs, definitions) : []
}

/** One target given in code, frozen. Throws OnceishError CONFIG_INVALID with every fault. */
export function parseTarget(name: string, raw: unknown): TargetDefinition {
  const { definition, faults } = checkTarget(name, raw)
  if (definition === null || faults.length > 0) throw configInvalid(faults, null)
  return freezeDeeply(definition)
}

/** An absolute path, or a URL as it is. */
export function storeOf(store: string, baseDir: string): string {
  if (POSTGRES_URL.test(store)) return store
  if (/^(:memory:|file:)/.test(store)) {
    throw new OnceishError(
      'CONFIG_INVALID',
      `store: ${store} is no file path: what is not on disk cannot survive a kill`,
    )
  }
  return resolve(baseDir, store)
}

function checkTarget(name: string, raw: unknown): ReadTarget {
  const base = `targets.${name}`
  if (!TARGET_NAME.test(name)) {
    const message = 'expected a name of letters, digits, ".", "_" and "-", at most 100, not beginning with a mark'
    return { definition: null, faults: [{ path: base, message }] }
  }
  const read = readTarget(name, raw)
  if (!('error' in read)) return { definition: read.definition, faults: placed(base, targetFaults(read.definition)) }
  const faults = [...faultsOf(read.error, base), ...placed(base, safetyBeside(name, raw, read.error))]
  return { definition: null, faults }
}

/** What the rules say of the rest of a target with faulty fields, so that nobody has to mend it in two rounds. */
function safetyBeside(name: string, raw: unknown, error: z.ZodError): Fault[] {
  const paths = error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : [issue.path],
  )
  const read = readTarget(name, paths.reduce<unknown>(without, raw))
  if ('error' in read) return []
  return targetFaults(read.definition, new Set(paths.map(([head]) => String(head))))
}

/** A copy that lacks the field; a list with a faulty item is left out as a whole. */
function without(value: unknown, path: readonly PropertyKey[]): unknown {
  const [head, ...rest] = path
  if (typeof value !== 'object' || value === null || Array.isArray(value) || head === undefined) return undefined
  const below = rest.length === 0 ? undefined : without((value as Record<PropertyKey, unknown>)[head], rest)
  const fields = Object.entries(value).filter(([name]) => name !== head)
  return Object.fromEntries(below === undefined ? fields : [...fields, [head, below]])
}

function placed(base: string, faults: readonly Fault[]): Fault[] {
  return faults.map(({ path, message }) => ({ path: `${base}.${path}`, message }))
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
