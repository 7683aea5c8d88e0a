// Words for evidence: redacted, short, and valid text in every store.
import type { Redactor } from './redact.ts'

const MAX_NOTE_CHARS = 512

export function shortText(text: string, redactor: Redactor): string {
  return storable(redactor.redactHead(text, MAX_NOTE_CHARS, false))
}

/** PostgreSQL takes neither NUL nor half of a surrogate pair. */
export function storable(text: string): string {
  return text.replaceAll('\0', '\uFFFD').toWellFormed()
}
