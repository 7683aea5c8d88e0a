// One target of a config, as data, in code, or as data given in code: what it says, and all that is wrong with it.
import type { z } from 'zod'
import { OnceishError } from '../core/errors.ts'
import type { PayloadSchema } from '../core/payload-schema.ts'
import type { CodeTarget } from './code-target.ts'
import { type CodeTargetDefinition, isPayloadSchema, NO_SCHEMA, readCodeTarget } from './code-target-schema.ts'
import type { DescribedTarget } from './described-target.ts'
import { type Fault, faultsOf } from './faults.ts'
import { careFaults, targetFaults } from './safety.ts'
import type { TargetDefinition } from './target-definition.ts'
import { readTarget } from './target-schema.ts'

/** Of targets and of buckets. */
export const NAME = /^[A-Za-z0-9][\w.-]{0,99}$/
export const NO_NAME = 'expected a name of letters, digits, ".", "_" and "-", at most 100, not beginning with a mark'

/** One of `described` and `coded`, where its shape is right; what it says is to be used only without faults. */
export interface ReadTarget {
  readonly name: string
  readonly described: TargetDefinition | null
  readonly coded: CodeTargetDefinition | null
  readonly payload: PayloadSchema | null
  readonly faults: readonly Fault[]
}

export function checkTarget(name: string, raw: unknown): ReadTarget {
  const base = `targets.${name}`
  const nothing: ReadTarget = { name, described: null, coded: null, payload: null, faults: [] }
  if (!NAME.test(name)) return { ...nothing, faults: [{ path: base, message: NO_NAME }] }
  if (isUnmade(raw))
    return { ...nothing, faults: [{ path: base, message: 'has a function invoke: make it with defineTarget' }] }
  if (!isGiven(raw)) return { ...nothing, ...checkDescribed(name, raw) }
  if (raw.name !== name) return { ...nothing, faults: [{ path: base, message: `is a target named "${raw.name}"` }] }
  if (raw.kind === 'code') return { ...nothing, ...checkCoded(name, raw) }
  const { described, faults } = checkDescribed(name, raw.description)
  if (raw.payload === null || isPayloadSchema(raw.payload))
    return { ...nothing, described, payload: raw.payload, faults }
  return { ...nothing, described, faults: [...faults, { path: `${base}.payload`, message: NO_SCHEMA }] }
}

function isUnmade(raw: unknown): boolean {
  return typeof (raw as { invoke?: unknown } | null)?.invoke === 'function'
}

/** Made by `defineTarget` or `httpTarget`. */
function isGiven(raw: unknown): raw is CodeTarget | DescribedTarget {
  const kind = typeof raw === 'object' && raw !== null && 'kind' in raw ? raw.kind : null
  return kind === 'code' || kind === 'described'
}

function checkCoded(name: string, { options }: CodeTarget): Pick<ReadTarget, 'coded' | 'payload' | 'faults'> {
  // Fields that were left out as faulty are made up for: the rules weigh the policy alone.
  const readRest = (given: unknown) => readCodeTarget({ ...STAND_IN, ...(given as object) })
  const { read, faults } = checked(`targets.${name}`, options, { whole: readCodeTarget, rest: readRest }, codeFaults)
  return { coded: read, payload: read?.payload ?? null, faults }
}

const STAND_IN = { name: 'x', version: 'x', invoke: () => {}, payload: { '~standard': { validate: () => {} } } }

function codeFaults({ care }: CodeTargetDefinition, faulty?: ReadonlySet<string>): Fault[] {
  return placed('policy', careFaults(care, faulty))
}

function checkDescribed(name: string, raw: unknown): Pick<ReadTarget, 'described' | 'faults'> {
  const readShape = (given: unknown) => readTarget(name, given)
  const { read, faults } = checked(`targets.${name}`, raw, { whole: readShape, rest: readShape }, targetFaults)
  return { described: read, faults }
}

type ReadShape<Definition> = (raw: unknown) => { readonly definition: Definition } | { readonly error: z.ZodError }

/** Shape first, then the rules: of all of it, or of what is left of it without its faulty fields. */
function checked<Definition>(
  base: string,
  raw: unknown,
  readShape: { readonly whole: ReadShape<Definition>; readonly rest: ReadShape<Definition> },
  rules: (definition: Definition, faulty?: ReadonlySet<string>) => readonly Fault[],
): { readonly read: Definition | null; readonly faults: readonly Fault[] } {
  const read = readShape.whole(raw)
  if (!('error' in read)) return { read: read.definition, faults: placed(base, rules(read.definition)) }
  // What the rules say of the rest of it, so that nobody has to mend it in two rounds.
  const paths = read.error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : [issue.path],
  )
  const rest = readShape.rest(paths.reduce<unknown>(without, raw))
  const beside = 'error' in rest ? [] : rules(rest.definition, new Set(paths.map(sectionOf)))
  return { read: null, faults: [...faultsOf(read.error, base), ...placed(base, beside)] }
}

/** Of a target in code the sections stand in its policy. */
function sectionOf(path: readonly PropertyKey[]): string {
  const [head, below] = path
  return String(head === 'policy' && below !== undefined ? below : head)
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

/** By name, where a program gave a list. @throws OnceishError CONFIG_INVALID */
export function namedTargets(targets: readonly unknown[]): Record<string, unknown> {
  const named: Record<string, unknown> = Object.create(null)
  targets.forEach((target, i) => {
    if (!isGiven(target) || typeof target.name !== 'string') {
      throw new OnceishError('CONFIG_INVALID', `targets[${i}] is no target: make it with defineTarget or httpTarget`)
    }
    if (target.name in named) {
      throw new OnceishError('CONFIG_INVALID', `two targets are named "${target.name}": each needs a name of its own`)
    }
    named[target.name] = target
  })
  return named
}
