// NDJSON in: streamed, checked line by line, written in transactions of a bounded size (batch.ts).
import { isOnceishError, OnceishError } from '../core/errors.ts'
import { checkedOptions, type Fields, FUNCTION, oneOf, TEXT } from '../core/given.ts'
import { didYouMean } from '../core/suggest.ts'
import { isRefused, type NewRequest, type Store } from '../store/store.ts'
import { isBatchFull } from './batch.ts'
import { type Line, readLines } from './lines.ts'
import { type EnqueueRequest, REQUEST_FIELDS, type RequestRules, refusalError, toNewRequest } from './new-request.ts'
import { parsePayload } from './parse-payload.ts'

/** Why one line was refused. */
export interface LineError {
  /** From 1. */
  readonly line: number
  /** An `ErrorCode`. */
  readonly code: string
  readonly message: string
}

/** What became of the lines, in counts. */
export interface EnqueueLinesReport {
  readonly enqueued: number
  readonly deduplicated: number
  readonly skipped: number
  /** The first `MAX_REPORTED_ERRORS` of them; `skipped` counts all. */
  readonly errors: readonly LineError[]
}

/** How NDJSON is taken in. */
export interface LinesOptions {
  /** Target of lines that name none. */
  readonly defaultTarget?: string | undefined
  /** At the first bad line: `stop` keeps the transactions before it, `skip` goes on. */
  readonly onError: 'stop' | 'skip'
  /** Called after each transaction, with what was read so far. */
  readonly onProgress?: ((report: { lines: number; bytes: number }) => void) | undefined
}

const FIELDS: Fields<LinesOptions> = { defaultTarget: TEXT, onError: oneOf(['stop', 'skip']), onProgress: FUNCTION }

interface EnqueueLinesOptions extends LinesOptions {
  readonly rules: RequestRules
}

const MAX_REPORTED_ERRORS = 1000

/** The fields of a line, for people. */
export const LINE_SHAPE = `{${REQUEST_FIELDS.map((name) => (name === 'payload' ? '"payload"' : `"${name}"?`)).join(', ')}}`

/**
 * `stop`: the transactions before the bad line's stay; the line's own is not written; re-running the file is safe.
 * `skip`: every good line is written.
 * @returns the report; with `stop`, the one error that stopped it is its last.
 */
export async function enqueueLines(
  store: Store,
  source: AsyncIterable<Buffer>,
  given: LinesOptions,
  rules: RequestRules,
): Promise<EnqueueLinesReport> {
  const options: EnqueueLinesOptions = { ...checkedOptions('options of enqueueLines', given, FIELDS), rules }
  const report = { enqueued: 0, deduplicated: 0, skipped: 0, errors: [] as LineError[] }
  let batch: { line: number; request: NewRequest }[] = []
  let lines = 0
  let bytes = 0
  /** Of the payloads in the batch. */
  let chars = 0

  const refuse = (line: number, error: OnceishError): void => {
    report.skipped++
    if (report.errors.length < MAX_REPORTED_ERRORS)
      report.errors.push({ line, code: error.code, message: error.message })
  }
  /** @returns false when a refusal stops everything. */
  const flush = async (): Promise<boolean> => {
    if (batch.length === 0) return true
    const stopAtRefusal = options.onError === 'stop'
    const results = await store.enqueue(
      batch.map((one) => one.request),
      options.rules.now(),
      { stopAtRefusal },
    )
    const written = batch
    batch = []
    chars = 0
    const last = results.at(-1)
    if (stopAtRefusal && last !== undefined && isRefused(last)) {
      refuse((written[results.length - 1] as { line: number }).line, refusalError(last))
      return false
    }
    results.forEach((result, index) => {
      if (isRefused(result)) refuse((written[index] as { line: number }).line, refusalError(result))
      else if (result.kind === 'inserted') report.enqueued++
      else report.deduplicated++
    })
    options.onProgress?.({ lines, bytes })
    return true
  }

  for await (const line of readLines(
    countBytes(source, (n) => {
      bytes += n
    }),
    options.rules.maxPayloadBytes,
  )) {
    lines = line.number
    try {
      const parsed = parseLine(line, options)
      if (parsed === null) continue
      // Awaited only where a schema takes time: a million lines are a million turns of the loop else.
      const made = toNewRequest(parsed, options.rules)
      const request = made instanceof Promise ? await made : made
      batch.push({ line: line.number, request })
      chars += request.payload.length
    } catch (error) {
      if (!isOnceishError(error)) throw error
      refuse(line.number, error)
      if (options.onError === 'stop') return report
    }
    if (isBatchFull(batch.length, chars) && !(await flush())) return report
  }
  await flush()
  return report
}

async function* countBytes(source: AsyncIterable<Buffer>, count: (bytes: number) => void): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    count(chunk.length)
    yield chunk
  }
}

function parseLine(line: Line, options: EnqueueLinesOptions): EnqueueRequest | null {
  if ('fault' in line) {
    if (line.fault === 'not_utf8') throw new OnceishError('LINE_INVALID', 'it is not UTF-8')
    throw new OnceishError(
      'PAYLOAD_TOO_LARGE',
      `it is longer than ${options.rules.maxPayloadBytes} bytes (maxPayloadBytes)`,
    )
  }
  if (line.text.trim() === '') return null
  const value = parsePayload(line.text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new OnceishError('LINE_INVALID', `it is no object: a line is ${LINE_SHAPE}`)
  }
  return toEnqueueRequest(value as Record<string, unknown>, options.defaultTarget)
}

/** What the fields hold is checked with everything else about a request (`toNewRequest`). */
function toEnqueueRequest(value: Record<string, unknown>, defaultTarget: string | undefined): EnqueueRequest {
  for (const name of Object.keys(value)) {
    if (!(REQUEST_FIELDS as readonly string[]).includes(name)) {
      throw new OnceishError('LINE_INVALID', `it has an unknown field "${name}"${didYouMean(name, REQUEST_FIELDS)}`)
    }
  }
  if (!('payload' in value)) throw new OnceishError('LINE_INVALID', 'it has no "payload"')
  const target = value['target'] ?? defaultTarget
  if (typeof target !== 'string')
    throw new OnceishError('LINE_INVALID', 'it names no "target": add one, or give --target')
  return { ...(value as unknown as EnqueueRequest), target }
}
