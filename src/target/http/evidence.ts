// What is kept of an answer: bounded, redacted before it is cut, and valid text in every store.
import { EVIDENCE_BODY_BYTES } from '../../core/limits.ts'
import type { Evidence } from '../../core/outcome.ts'
import type { HeaderMap } from '../../core/retry-after.ts'
import type { Redactor } from '../redact.ts'
import { shortText, storable } from '../stored-text.ts'
import type { Answer, CallVerdict } from './submit.ts'

const KEPT_HEADERS: ReadonlySet<string> = new Set([
  'content-type',
  'content-length',
  'date',
  'retry-after',
  'location',
  'x-request-id',
  'request-id',
  'x-correlation-id',
  'idempotency-key',
  'idempotency-status',
  'idempotent-replayed',
  'repeatability-result',
  'ratelimit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'x-should-retry',
])

const MAX_HEADER_CHARS = 512

export function evidenceOf(
  verdict: CallVerdict,
  redactor: Redactor,
  words: { readonly rule?: string; readonly note?: string | undefined } = {},
): Evidence {
  return {
    phase: verdict.phase,
    ...('answer' in verdict ? answerEvidence(verdict.answer, redactor, verdict.phase === 'cut') : {}),
    ...('error' in verdict ? { error: shortText(`${verdict.error.code}: ${verdict.error.message}`, redactor) } : {}),
    ...(words.rule === undefined ? {} : { rule: words.rule }),
    ...(words.note === undefined ? {} : { note: shortText(words.note, redactor) }),
  }
}

/** Evidence of a call that was never made. */
export function unsentEvidence(rule: string, error: unknown, redactor: Redactor): Evidence {
  const message = error instanceof Error ? error.message : String(error)
  return { phase: 'not_sent', rule, error: shortText(message, redactor) }
}

function answerEvidence(answer: Answer, redactor: Redactor, isCut: boolean): Omit<Evidence, 'phase'> {
  // A byte is at most one character, so this many characters are enough.
  const text = redactor.redactHead(bodyText(answer, isCut), EVIDENCE_BODY_BYTES, isCut)
  return {
    status: answer.status,
    headers: keptHeaders(answer.headers, redactor),
    body: cutUtf8(storable(text), EVIDENCE_BODY_BYTES),
  }
}

/** An answer that broke off under an encoding is noise. */
function bodyText(answer: Answer, isCut: boolean): string {
  return isCut && answer.headers['content-encoding'] !== undefined ? '' : answer.body.toString('utf8')
}

function keptHeaders(headers: HeaderMap, redactor: Redactor): HeaderMap {
  const kept: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (KEPT_HEADERS.has(name)) kept[name] = storable(redactor.redactHead(value, MAX_HEADER_CHARS, false))
  }
  return kept
}

function cutUtf8(text: string, maxBytes: number): string {
  // A character of a string is at most three bytes.
  if (text.length * 3 <= maxBytes) return text
  const bytes = Buffer.from(text, 'utf8')
  if (bytes.length <= maxBytes) return text
  let end = maxBytes
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--
  return bytes.subarray(0, end).toString('utf8')
}
