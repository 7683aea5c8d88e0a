// JSON text from outside, as plain values that are what the text said.
import { isSafeNumber, parse as parseLossless } from 'lossless-json'
import { isOnceishError, OnceishError } from '../core/errors.ts'

const LONG_NUMBER = /\d{16}/

/**
 * JSON text as plain values. A number that a double cannot hold would change on its way to the API, so it is refused.
 * @throws OnceishError LINE_INVALID
 */
export function parsePayload(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    if (LONG_NUMBER.test(text)) parseLossless(text, undefined, { parseNumber: exactNumber })
    return value
  } catch (error) {
    if (isOnceishError(error)) throw error
    throw new OnceishError('LINE_INVALID', `it is no JSON: ${(error as Error).message}`, { cause: error })
  }
}

function exactNumber(digits: string): number {
  if (isSafeNumber(digits, { approx: true })) return Number(digits)
  throw new OnceishError('LINE_INVALID', `the number ${digits} cannot be held exactly: send it as text, "${digits}"`)
}
