// What is wrong with a config, all of it at once: a fault names its field and says what would be right.
import type { z } from 'zod'
import { OnceishError } from '../core/errors.ts'
import { didYouMean } from '../core/suggest.ts'

export interface Fault {
  /** As in `targets.transcribe.submit.url`; empty: the config as a whole. */
  readonly path: string
  readonly message: string
}

type Issue = z.core.$ZodIssue

/** @param where the file, or null for a config given in code. */
export function configInvalid(faults: readonly Fault[], where: string | null): OnceishError {
  const lines = faults.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`))
  const head = `${where ?? 'the config'} has ${faults.length === 1 ? 'a fault' : `${faults.length} faults`}:`
  return new OnceishError('CONFIG_INVALID', [head, ...lines].join('\n'), { details: { faults } })
}

export function faultsOf(error: z.ZodError, base = ''): Fault[] {
  return error.issues.flatMap((issue) => faultsOfIssue(issue, base))
}

function joinPath(base: string, path: readonly PropertyKey[]): string {
  let text = base
  for (const step of path) text += typeof step === 'number' ? `[${step}]` : `${text === '' ? '' : '.'}${String(step)}`
  return text
}

function faultsOfIssue(issue: Issue, base: string): Fault[] {
  if (issue.code === 'unrecognized_keys') {
    const hints = issue.message.split('\n')
    return issue.keys.map((key, i) => ({
      path: joinPath(base, [...issue.path, key]),
      message: hints[i] ?? 'unknown key',
    }))
  }
  return [{ path: joinPath(base, issue.path), message: messageOf(issue) }]
}

/** The hint for each unknown key, a line each: only the section itself knows what it could have been. */
export function unknownKeyHints(keys: readonly string[], known: readonly string[]): string {
  return keys.map((key) => `unknown key${didYouMean(key, known) || `; known are ${known.join(', ')}`}`).join('\n')
}

function messageOf(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined
        ? `is required (${nameOf(issue.expected)})`
        : `expected ${nameOf(issue.expected)}, got ${kindOf(issue.input)}`
    case 'invalid_value':
      return `expected ${listOf(issue.values)}, got ${kindOf(issue.input)}${hint(issue)}`
    case 'too_small':
      return `expected ${sizeOf(issue.origin)} at least ${issue.minimum}, got ${measureOf(issue.input)}`
    case 'too_big':
      return `expected ${sizeOf(issue.origin)} at most ${issue.maximum}, got ${measureOf(issue.input)}`
    case 'invalid_key':
      return issue.issues[0]?.message ?? issue.message
    default:
      return issue.message
  }
}

function listOf(values: readonly unknown[]): string {
  return values.map((value) => JSON.stringify(value)).join(', ')
}

function hint(issue: Issue & { code: 'invalid_value' }): string {
  return typeof issue.input === 'string' ? didYouMean(issue.input, issue.values.map(String)) : ''
}

const NAMES: Readonly<Record<string, string>> = {
  int: 'a whole number',
  number: 'a number',
  string: 'text',
  boolean: 'true or false',
  array: 'a list',
  object: 'a section',
  record: 'a section',
}

function nameOf(expected: string): string {
  return NAMES[expected] ?? expected
}

function sizeOf(origin: string): string {
  return origin === 'array' ? 'a list of' : origin === 'string' ? 'a length of' : 'a number of'
}

function measureOf(input: unknown): string {
  return typeof input === 'string' || Array.isArray(input) ? String(input.length) : String(input)
}

/** Short values are shown, long ones might be secrets in the wrong place. */
export function kindOf(input: unknown): string {
  if (input === undefined || input === null) return 'nothing'
  if (typeof input === 'string') return input.length <= 40 ? JSON.stringify(input) : 'a long text'
  if (typeof input === 'number' || typeof input === 'boolean') return String(input)
  if (Array.isArray(input)) return 'a list'
  return typeof input === 'object' ? 'a section' : `a ${typeof input}`
}
