// A small API on a real loopback socket that counts its effects: the oracle that says whether anything happened twice.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Clock, systemClock } from '../core/clock.ts'
import { isOnceishError, OnceishError } from '../core/errors.ts'

/** One submission as it arrived. */
export interface FakeCall {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Of a JSON body. */
  readonly json: unknown
  /** Null where it carried none. */
  readonly key: string | null
}

/** One thing that the API did. */
export interface FakeEffect {
  readonly id: string
  readonly key: string | null
  readonly call: FakeCall
  readonly at: number
}

/** What it answers. */
export interface FakeAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON; text as it is. */
  readonly body: unknown
}

/** What one submission meets. "After" means that the effect has happened. */
export type FakeFault =
  | 'none'
  | 'reset-before-effect'
  | 'reset-after-effect'
  /** The head and half of the body, then a close. */
  | 'cut-after-effect'
  /** Never answered, until the caller leaves. */
  | 'hang-after-effect'
  | (FakeAnswer & { readonly after?: 'effect' })

/** Which API it plays. */
export interface FakeApiOptions {
  /**
   * `client-id`: PUT path/ID, a second one is 409. `keyed`: the key of the `idempotency-key` header is remembered and its first
   * answer repeated. `lookup`: every POST is new; GET path?reference=KEY lists what was made with that `reference`. `opaque`:
   * every POST is new, and there is nothing to ask.
   */
  readonly kind: 'client-id' | 'keyed' | 'lookup' | 'opaque'
  /** Default `/v1/jobs`. */
  readonly path?: string
  /** How long a key is remembered; default for ever. */
  readonly rememberedForMs?: number
  /** How long the list lags behind an effect; default 0. */
  readonly lagMs?: number
  /** Decides on memory and lag; give it the worker's own. */
  readonly clock?: Clock
  /** Where the key is; default as `kind` says. */
  readonly keyOf?: (call: Omit<FakeCall, 'key'>) => string | null
  /** What a success says; default 201 `{ id, key, state: 'done' }`. */
  readonly answer?: (effect: FakeEffect) => FakeAnswer
}

/** A running fake, and what it has seen. */
export interface FakeApi {
  /** `http://127.0.0.1:PORT` */
  readonly origin: string
  /** `origin` and `path`. */
  readonly url: string
  /** Every submission that arrived whole. */
  readonly calls: readonly FakeCall[]
  readonly effects: readonly FakeEffect[]
  /** Ids of tasks that were canceled, by DELETE path/ID. */
  readonly canceled: ReadonlySet<string>
  /** What the next submissions meet, in order; those after them meet nothing. */
  failNext(...faults: readonly FakeFault[]): void
  /** Ends it, and the calls that hang. */
  close(): Promise<void>
}

interface Remembered {
  readonly body: string
  readonly at: number
  readonly answer: FakeAnswer
}

/** Listens on a free port of 127.0.0.1. @throws OnceishError USAGE */
export async function startFakeApi(options: FakeApiOptions): Promise<FakeApi> {
  if (!Object.hasOwn(KEYS, options.kind)) throw unknownWord('kind', options.kind, Object.keys(KEYS))
  const {
    kind,
    path = '/v1/jobs',
    rememberedForMs = Number.POSITIVE_INFINITY,
    lagMs = 0,
    clock = systemClock,
  } = options
  const calls: FakeCall[] = []
  const effects: FakeEffect[] = []
  const faults: FakeFault[] = []
  const memory = new Map<string, Remembered>()
  const canceled = new Set<string>()
  const answerOf = options.answer ?? created
  const keyOf = options.keyOf ?? KEYS[kind]

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const call = await readCall(request, keyOf)
    const { pathname, searchParams } = new URL(call.url, 'http://fake')
    const isOurs = pathname === path || pathname.startsWith(`${path}/`)
    if (isOurs && call.method === 'GET') send(response, tell(pathname, searchParams))
    else if (isOurs && call.method === 'DELETE') send(response, cancel(pathname))
    else if (isOurs && (call.method === 'POST' || call.method === 'PUT')) {
      calls.push(call)
      meet(faults.shift() ?? 'none', call, response)
    } else send(response, { status: 404, body: { error: `nothing answers ${call.method} ${pathname}` } })
  }

  function meet(fault: FakeFault, call: FakeCall, response: ServerResponse): void {
    const isBefore = fault === 'reset-before-effect' || (typeof fault === 'object' && fault.after !== 'effect')
    const answer = isBefore ? null : perform(call)
    if (typeof fault === 'object') send(response, fault)
    else if (fault === 'reset-before-effect' || fault === 'reset-after-effect') reset(response)
    else if (fault === 'cut-after-effect' && answer !== null) cut(response, answer)
    else if (fault === 'none' && answer !== null) send(response, answer)
  }

  function perform(call: FakeCall): FakeAnswer {
    if (kind === 'opaque' || kind === 'lookup') return make(call)
    if (call.key === null) return { status: 400, body: { error: 'a key is missing' } }
    const known = memory.get(call.key)
    if (known === undefined || clock.wallNow() - known.at > rememberedForMs) {
      const answer = make(call)
      memory.set(call.key, { body: call.body, at: clock.wallNow(), answer })
      return answer
    }
    if (kind === 'client-id') return { status: 409, body: { error: 'exists', id: call.key, key: call.key } }
    if (known.body !== call.body) return { status: 422, body: { error: 'the key was used with another body' } }
    return { ...known.answer, headers: { ...known.answer.headers, 'idempotent-replayed': 'true' } }
  }

  function make(call: FakeCall): FakeAnswer {
    const id = kind === 'client-id' && call.key !== null ? call.key : `task-${effects.length + 1}`
    const effect = { id, key: call.key, call, at: clock.wallNow() }
    effects.push(effect)
    const answer = answerOf(effect)
    if (typeof answer?.status !== 'number') throw new OnceishError('USAGE', 'answer gives { status, headers?, body }')
    return answer
  }

  function view({ id, key }: FakeEffect) {
    return { id, key, reference: key, state: canceled.has(id) ? 'canceled' : 'done' }
  }

  function tell(pathname: string, query: URLSearchParams): FakeAnswer {
    const visible = effects.filter(({ at }) => clock.wallNow() - at >= lagMs)
    if (pathname === path) {
      if (kind !== 'lookup') return { status: 404, body: { error: 'there is no list' } }
      const reference = query.get('reference')
      const data = visible.filter(({ key }) => reference === null || key === reference).map(view)
      return { status: 200, body: { data, has_more: false } }
    }
    const one = visible.find(({ id }) => pathname === `${path}/${id}`)
    return one === undefined ? NOT_FOUND : { status: 200, body: view(one) }
  }

  function cancel(pathname: string): FakeAnswer {
    const one = effects.find(({ id }) => pathname === `${path}/${id}`)
    if (one === undefined) return NOT_FOUND
    canceled.add(one.id)
    return { status: 200, body: view(one) }
  }

  const server = createServer((request, response) => {
    // The caller left before its call was whole, or `answer` gave none: that is told as what it is.
    serve(request, response).catch((error: unknown) =>
      isOnceishError(error) ? send(response, { status: 500, body: error.message }) : response.destroy(),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    origin,
    url: origin + path,
    calls,
    effects,
    failNext: (...next) => {
      for (const fault of next) if (!isFault(fault)) throw unknownWord('fault', fault, FAULTS)
      faults.push(...next)
    },
    canceled,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

const FAULTS = ['none', 'reset-before-effect', 'reset-after-effect', 'cut-after-effect', 'hang-after-effect']

function isFault(fault: unknown): boolean {
  return typeof fault === 'string' ? FAULTS.includes(fault) : typeof (fault as FakeAnswer | null)?.status === 'number'
}

function unknownWord(what: string, given: unknown, known: readonly string[]): OnceishError {
  return new OnceishError('USAGE', `${JSON.stringify(given)} is no ${what}: it is one of ${known.join(', ')}`)
}

const NOT_FOUND: FakeAnswer = { status: 404, body: { error: 'not found' } }

const KEYS: Record<FakeApiOptions['kind'], NonNullable<FakeApiOptions['keyOf']>> = {
  'client-id': ({ url }) => decodeURIComponent(url.split('?')[0]?.split('/').at(-1) ?? '') || null,
  keyed: ({ headers }) => headers['idempotency-key'] ?? null,
  lookup: ({ json }) => textOf((json as { reference?: unknown } | null)?.reference),
  opaque: () => null,
}

function created({ id, key }: FakeEffect): FakeAnswer {
  return { status: 201, body: { id, key, state: 'done' } }
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

async function readCall(request: IncomingMessage, keyOf: NonNullable<FakeApiOptions['keyOf']>): Promise<FakeCall> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const body = Buffer.concat(chunks).toString('utf8')
  const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
  const call = { method: request.method ?? '', url: request.url ?? '', headers, body, json: jsonOf(body) }
  return { ...call, key: keyOf(call) }
}

function jsonOf(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return null
  }
}

function send(response: ServerResponse, { status, headers = {}, body }: FakeAnswer): void {
  const { type, text } = bodyOf(body)
  response.writeHead(status, { 'content-type': type, ...headers }).end(text)
}

function cut(response: ServerResponse, { status, headers = {}, body }: FakeAnswer): void {
  const { type, text } = bodyOf(body)
  response.writeHead(status, { 'content-type': type, ...headers, 'content-length': Buffer.byteLength(text) })
  response.write(text.slice(0, Math.floor(text.length / 2)), () => response.destroy())
}

function bodyOf(body: unknown): { readonly type: string; readonly text: string } {
  if (typeof body === 'string') return { type: 'text/plain', text: body }
  return { type: 'application/json', text: JSON.stringify(body) }
}

function reset(response: ServerResponse): void {
  response.socket?.resetAndDestroy()
}
