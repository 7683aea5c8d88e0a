// What may count as a task id: text that survives being stored and sent back.
import { MAX_TASK_ID_CHARS } from '../core/limits.ts'
import { REDACTED, type Redactor } from './redact.ts'

const CONTROL_CHARACTER = /\p{Cc}/u

/** @returns a task id as text, or null where the value is none that survives being stored and sent back. */
export function taskIdText(value: unknown, redactor: Redactor): string | null {
  const text = typeof value === 'bigint' || Number.isSafeInteger(value) ? String(value) : value
  if (typeof text !== 'string' || text.length === 0 || text.length > MAX_TASK_ID_CHARS) return null
  // An API that echoes a credential as an id has given no id.
  if (redactor.redact(text) === REDACTED) return null
  // U+FFFD stands for bytes that were no UTF-8: two ids could become one.
  return CONTROL_CHARACTER.test(text) || !text.isWellFormed() || text.includes('\uFFFD') ? null : text
}
