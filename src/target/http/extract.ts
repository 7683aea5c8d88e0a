// What an answer says, as values for expressions. Numbers keep their digits: an id above 2^53 comes out as it came in.
import { isSafeNumber, parse as parseLosslessly } from 'lossless-json'
import type { HeaderMap } from '../../core/retry-after.ts'
import type { Answer } from './submit.ts'

/** `$response` of expressions. */
export interface ResponseFacts {
  readonly status: number
  readonly headers: HeaderMap
  readonly body: unknown
}

export interface ReadAnswer {
  readonly response: ResponseFacts
  /** False: the answer claims to be JSON and is not; its body is undefined. */
  readonly readable: boolean
}

/** A number that may not survive as a double: sixteen digits or more, or a large exponent. */
const MAY_LOSE_DIGITS = /\d[\d.]{15}|\d[eE][+-]?\d{3}/
const JSON_TYPE = /^[^;]*[/+]json\b/i
const FORM_TYPE = /^application\/x-www-form-urlencoded\b/i

export function readAnswer(answer: Answer): ReadAnswer {
  const { status, headers } = answer
  const text = answer.body.toString('utf8').replace(/^\uFEFF/, '')
  const type = headers['content-type'] ?? ''
  if (FORM_TYPE.test(type)) return { response: { status, headers, body: formValues(text) }, readable: true }
  const claimed = JSON_TYPE.test(type) && text.trim() !== ''
  // Many APIs send JSON under another type, or none.
  const parsed = claimed || /^\s*[[{]/.test(text) ? tryParse(text) : undefined
  if (parsed !== undefined) return { response: { status, headers, body: parsed.value }, readable: true }
  return { response: { status, headers, body: claimed ? undefined : text }, readable: !claimed }
}

/** JSON whose numbers become text where a double would lose digits. Throws SyntaxError. */
export function parseJson(text: string): unknown {
  if (!MAY_LOSE_DIGITS.test(text)) return JSON.parse(text)
  return parseLosslessly(text, null, {
    parseNumber: (digits) => (isSafeNumber(digits) ? Number(digits) : digits),
    onDuplicateKey: ({ newValue }) => newValue,
  })
}

function tryParse(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: parseJson(text) }
  } catch {
    return undefined
  }
}

/** A field that comes once is a string, one that comes again an array. */
function formValues(text: string): Readonly<Record<string, string | string[]>> {
  const fields = new URLSearchParams(text)
  return Object.fromEntries(
    [...new Set(fields.keys())].map((name) => {
      const values = fields.getAll(name)
      return [name, values.length === 1 && values[0] !== undefined ? values[0] : values]
    }),
  )
}
