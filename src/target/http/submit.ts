// One dispatch, at most one write, one verdict. How far the bytes got is told by undici's hooks, never by an error
// code: undici writes synchronously right after `onRequestStart` returns un-aborted, and nothing before.
// Must never retry, never follow a redirect, never reject.
import { brotliDecompressSync, gunzipSync, inflateRawSync, inflateSync } from 'node:zlib'
import type { Dispatcher } from 'undici'
import { type Clock, systemClock } from '../../core/clock.ts'
import type { HeaderMap } from '../../core/retry-after.ts'
import type { AbortLike, WriteGate } from '../target.ts'

export interface HttpCall {
  readonly origin: string
  /** Path and query. */
  readonly path: string
  readonly method: string
  readonly headers: HeaderMap
  readonly body: string | null
  /** For the whole call: queue, dial, write, answer. */
  readonly timeoutMs: number
  readonly headersMs: number
  readonly bodyMs: number
  /** Of the answer's body, as sent and inflated. */
  readonly maxResponseBytes: number
  readonly gate?: WriteGate | undefined
  readonly onWritten?: (() => void) | undefined
  readonly signal?: AbortLike | undefined
  readonly clock?: Clock
}

interface CallError {
  readonly code: string
  readonly message: string
}

export interface Answer {
  readonly status: number
  readonly headers: HeaderMap
  /** Inflated where the answer was whole. */
  readonly body: Buffer
}

export type CallVerdict =
  /** Nothing was or will be written. `permanent`: the same call can never be sent. `gate`: what the gate said. */
  | { readonly phase: 'not_sent'; readonly permanent: boolean; readonly gate: string | null; readonly error: CallError }
  /** Written, or maybe; no final head. */
  | { readonly phase: 'unanswered'; readonly error: CallError }
  /** The head came; the body is not whole, too large, or cannot be inflated. */
  | { readonly phase: 'cut'; readonly answer: Answer; readonly error: CallError }
  | { readonly phase: 'answered'; readonly answer: Answer }

const PERMANENT = new Set(['UND_ERR_INVALID_ARG', 'UND_ERR_NOT_SUPPORTED', 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH'])

/** Resolves with what the call proved; at most one write, whatever the dispatcher does. */
export function submit(dispatcher: Dispatcher, call: HttpCall): Promise<CallVerdict> {
  return new Promise((resolve) => new SingleCall(call, resolve).start(dispatcher))
}

/** One call's life as undici tells it. Ends once; whatever comes later changes nothing and writes nothing. */
class SingleCall implements Dispatcher.DispatchHandler {
  readonly #call: HttpCall
  readonly #resolve: (verdict: CallVerdict) => void
  readonly #clock: Clock
  readonly #startedAt: number
  readonly #onAbort = () => this.#cancel(coded('ABORTED', 'the call was aborted'))
  #timer: NodeJS.Timeout | undefined
  #controller: Dispatcher.DispatchController | null = null
  #written = false
  #settled = false
  #gateReason: string | null = null
  #head: { readonly status: number; readonly headers: HeaderMap } | null = null
  #wantBytes = Number.NaN
  #gotBytes = 0
  #chunks: Buffer[] = []

  constructor(call: HttpCall, resolve: (verdict: CallVerdict) => void) {
    this.#call = call
    this.#resolve = resolve
    this.#clock = call.clock ?? systemClock
    this.#startedAt = this.#clock.monotonicNow()
  }

  start(dispatcher: Dispatcher): void {
    const { signal, timeoutMs } = this.#call
    if (signal?.aborted) {
      this.#onAbort()
      return
    }
    signal?.addEventListener('abort', this.#onAbort, { once: true })
    this.#timer = setTimeout(() => this.#endAtDeadline(deadlinePassed(timeoutMs)), timeoutMs)
    try {
      dispatcher.dispatch(dispatchOptions(this.#call), this)
    } catch (error) {
      this.#fail(error)
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const refused = this.#whyNoWrite()
    if (refused !== null) {
      controller.abort(refused)
      return
    }
    this.#controller = controller
    this.#written = true
    this.#call.onWritten?.()
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: RawHeaders): void {
    if (status < 200 || this.#settled) return
    const { method, maxResponseBytes } = this.#call
    this.#head = { status, headers: plainHeaders(headers) }
    if (!hasNoBody(method, status)) this.#wantBytes = Number(this.#head.headers['content-length'] ?? Number.NaN)
    if (this.#wantBytes > maxResponseBytes) controller.abort(tooLarge(this.#wantBytes, maxResponseBytes))
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#settled) return
    const bytes = this.#gotBytes + chunk.length
    if (bytes > this.#call.maxResponseBytes) {
      controller.abort(tooLarge(bytes, this.#call.maxResponseBytes))
      return
    }
    this.#gotBytes = bytes
    this.#chunks.push(chunk)
  }

  onResponseEnd(): void {
    try {
      this.#done({ phase: 'answered', answer: this.#wholeAnswer() })
    } catch (error) {
      this.#fail(error)
    }
  }

  onResponseError(_: unknown, error: Error): void {
    this.#fail(error)
  }

  /** The last moment at which the call can be kept back: nothing asynchronous lies between this and the write. */
  #whyNoWrite(): Error | null {
    const { gate, timeoutMs } = this.#call
    // Nobody would hear of a write from here on, so none may happen.
    if (this.#settled) return coded('SETTLED', 'the call has already ended')
    if (this.#written) return coded('SECOND_WRITE', 'a second write of one call was refused')
    // A process that was stopped can come here before its own late timer fires.
    if (this.#clock.monotonicNow() - this.#startedAt >= timeoutMs) return deadlinePassed(timeoutMs)
    this.#gateReason = askGate(gate)
    return this.#gateReason === null ? null : coded('GATE_CLOSED', this.#gateReason)
  }

  #wholeAnswer(): Answer {
    if (this.#head === null) throw coded('NO_HEAD', 'the answer ended without a head')
    // Over some transports a broken stream ends like a whole one.
    if (this.#wantBytes >= 0 && this.#gotBytes !== this.#wantBytes) {
      throw coded('SHORT_BODY', `the body has ${this.#gotBytes} of ${this.#wantBytes} bytes`)
    }
    const { status, headers } = this.#head
    return {
      status,
      headers,
      body: inflate(this.#collected(), headers['content-encoding'], this.#call.maxResponseBytes),
    }
  }

  /** A process that stood still finds its timers before its sockets: an answer that is there is read first. */
  #endAtDeadline(reason: Error): void {
    setImmediate(() => this.#cancel(reason))
  }

  #cancel(reason: Error): void {
    if (this.#settled) return
    // undici cannot take back what still queues or dials; the later onRequestStart aborts before the write.
    this.#fail(reason)
    this.#controller?.abort(reason)
  }

  #fail(cause: unknown): void {
    const error = callError(cause)
    if (this.#head !== null) this.#done({ phase: 'cut', answer: { ...this.#head, body: this.#collected() }, error })
    else if (this.#written) this.#done({ phase: 'unanswered', error })
    else this.#done({ phase: 'not_sent', permanent: PERMANENT.has(error.code), gate: this.#gateReason, error })
  }

  #done(verdict: CallVerdict): void {
    if (this.#settled) return
    this.#settled = true
    clearTimeout(this.#timer)
    this.#call.signal?.removeEventListener('abort', this.#onAbort)
    this.#chunks = []
    this.#resolve(verdict)
  }

  #collected(): Buffer {
    const [only] = this.#chunks
    return only !== undefined && this.#chunks.length === 1 ? only : Buffer.concat(this.#chunks, this.#gotBytes)
  }
}

type RawHeaders = Readonly<Record<string, string | string[] | undefined>>

function dispatchOptions(call: HttpCall): Dispatcher.DispatchOptions {
  return {
    origin: call.origin,
    path: call.path,
    method: call.method,
    headers: call.headers,
    body: call.body,
    // Our own deadline covers these where they are no shorter, and waits for what has come already.
    headersTimeout: call.headersMs < call.timeoutMs ? call.headersMs : 0,
    bodyTimeout: call.bodyMs < call.timeoutMs ? call.bodyMs : 0,
    // True would let undici pipeline it, and write it again when the call before it fails.
    idempotent: false,
  }
}

function askGate(gate: WriteGate | undefined): string | null {
  if (gate === undefined) return null
  try {
    return gate()
  } catch (error) {
    return `the write gate failed: ${callError(error).message}`
  }
}

/** Lower-case names, the first value of each; cookies are nobody's business here. */
function plainHeaders(raw: RawHeaders): HeaderMap {
  const plain: Record<string, string> = {}
  for (const [written, value] of Object.entries(raw)) {
    const name = written.toLowerCase()
    const first = Array.isArray(value) ? value[0] : value
    if (first !== undefined && name !== 'set-cookie') plain[name] = first
  }
  return plain
}

function hasNoBody(method: string, status: number): boolean {
  return method === 'HEAD' || status === 204 || status === 304
}

/** No encoding is asked for; one that comes all the same is undone within the bound. */
function inflate(body: Buffer, encoding: string | undefined, maxOutputLength: number): Buffer {
  if (encoding === undefined || body.length === 0) return body
  let plain = body
  for (const name of encoding.toLowerCase().split(',').reverse()) {
    const undo = DECODERS.get(name.trim())
    if (undo === undefined) throw coded('UNKNOWN_ENCODING', `the answer is encoded as "${name.trim()}"`)
    plain = undo(plain, { maxOutputLength })
  }
  return plain
}

type Decoder = (body: Buffer, options: { maxOutputLength: number }) => Buffer

const DECODERS: ReadonlyMap<string, Decoder> = new Map<string, Decoder>([
  ['', (body) => body],
  ['identity', (body) => body],
  ['gzip', gunzipSync],
  ['x-gzip', gunzipSync],
  ['br', brotliDecompressSync],
  // Some servers leave out the zlib wrapper; its first byte tells.
  ['deflate', (body, options) => (((body[0] ?? 0) & 0x0f) === 8 ? inflateSync : inflateRawSync)(body, options)],
])

function callError(cause: unknown): CallError {
  if (!(cause instanceof Error)) return { code: 'ERROR', message: String(cause) }
  const code = (cause as { code?: unknown }).code
  return { code: typeof code === 'string' ? code : cause.name, message: messageOf(cause) }
}

/**
 * Where a name has several addresses, the error of the dial says nothing itself: each of its parts does. OpenSSL ends what it
 * says with a line break.
 */
function messageOf(error: Error): string {
  if (!(error instanceof AggregateError) || error.message !== '') return error.message.trimEnd()
  return error.errors.map((part) => (part instanceof Error ? messageOf(part) : String(part))).join('; ')
}

function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}

function deadlinePassed(timeoutMs: number): Error {
  return coded('DEADLINE', `the call did not end within ${timeoutMs} ms`)
}

function tooLarge(bytes: number, maxBytes: number): Error {
  return coded('TOO_LARGE', `the answer has ${bytes} bytes or more, the bound is ${maxBytes}`)
}
