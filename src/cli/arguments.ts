// Words of the command line as values; each refuses what it cannot mean, which is a usage error.
import { InvalidArgumentError } from 'commander'
import { parseDuration } from '../config/duration.ts'
import { OnceishError } from '../core/errors.ts'
import { nearestName } from '../core/suggest.ts'
import { checkedInstant } from '../producer/new-request.ts'

export function usage(message: string): OnceishError {
  return new OnceishError('USAGE', message)
}

export function requestId(text: string): number {
  return idOf(text, 'A request id is a positive whole number.')
}

export function requestIds(text: string, before: number[] | undefined): number[] {
  return [...(before ?? []), requestId(text)]
}

export function orphanId(text: string): number {
  return idOf(text, 'The id of an orphan is a positive whole number: "onceish orphans" shows it.')
}

export function orphanIds(text: string, before: number[] | undefined): number[] {
  return [...(before ?? []), orphanId(text)]
}

function idOf(text: string, complaint: string): number {
  const id = Number(text)
  if (/^[1-9]\d*$/.test(text) && Number.isSafeInteger(id)) return id
  throw new InvalidArgumentError(complaint)
}

export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (/^-?\d+$/.test(text) && value >= min && value <= max) return value
    throw new InvalidArgumentError(`It is a whole number from ${min} to ${max}.`)
  }
}

export function nonEmpty(text: string): string {
  if (text.trim() !== '') return text
  throw new InvalidArgumentError('It is empty.')
}

/** Milliseconds of `90s`, `15m`, `24h`. */
export function durationMs(text: string): number {
  try {
    return parseDuration(text)
  } catch {
    throw new InvalidArgumentError('It is a duration with its unit, such as 90s, 15m, 24h or 7d.')
  }
}

/** Epoch milliseconds of ISO 8601 text with a zone. */
export function instant(text: string): number {
  try {
    return checkedInstant('It', /^\d+$/.test(text) ? Number(text) : text)
  } catch (error) {
    throw new InvalidArgumentError(`${(error as Error).message}.`)
  }
}

/** Commander takes a null for no value at all. */
export type Deadline = number | 'never'

export function deadline(text: string): Deadline {
  return text === 'never' ? text : instant(text)
}

export function expiryOf(given: Deadline): number | null {
  return given === 'never' ? null : given
}

export function names(text: string): string[] {
  const list = text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
  if (list.length > 0) return [...new Set(list)]
  throw new InvalidArgumentError('It names no target: give names with commas between them.')
}

export function oneOf<T extends string>(known: readonly T[]): (text: string) => T {
  return (text) => {
    if ((known as readonly string[]).includes(text)) return text as T
    const nearest = nearestName(text, known)
    throw new InvalidArgumentError(nearest === null ? `It is one of ${known.join(', ')}.` : `Did you mean ${nearest}?`)
  }
}

/** An example below the command's --help. */
export function example(...lines: string[]): string {
  return `\nExample:\n${lines.map((line) => `  ${line}`).join('\n')}`
}
