// One third-party API on a real loopback socket: it does what its documentation says, counts what happened, and lets a
// test say which calls meet a mishap. What is the API's own stands in its contract, in ../fakes.
import { HttpResponse, http, type RequestHandler } from 'msw'
import { type ServedMsw, serveMsw } from '../../../fixtures/api/serve-msw.ts'

export interface Answer {
  readonly status: number
  readonly body?: unknown
  /** JSON as text, for numbers that JavaScript cannot hold. */
  readonly json?: string
  readonly headers?: Readonly<Record<string, string>>
}

export interface Call {
  readonly key: string | null
  readonly text: string
  readonly fields: Fields
  readonly headers: Headers
}

export type Fields = Readonly<Record<string, unknown>>

export interface Effect {
  readonly id: string
  readonly call: Call
  readonly at: number
}

export interface Contract {
  /** As documented; in the preset it is replaced by the fake's. */
  readonly origin: string
  /** Path of the submit. */
  readonly path: string
  readonly keyOf: (call: Omit<Call, 'key'>) => string | null
  readonly idOf: (count: number, call: Call) => string
  readonly accept: (id: string, call: Call) => Answer
  /** What a known key is answered; absent: the API knows no keys, and every call is a new one. */
  readonly repeat?: (first: Answer, call: Call) => Answer
  /** What a key is answered whose first call still runs. */
  readonly busy?: Answer
  readonly handlers?: (fake: FakeApi) => RequestHandler[]
}

export type Mishap =
  | { readonly kind: 'none' }
  /** Answered without an effect; `saved`: the API remembers that under the key. */
  | { readonly kind: 'refused'; readonly answer: Answer; readonly saved?: boolean }
  /** It happened, and the answer says something else. */
  | { readonly kind: 'after'; readonly answer: Answer }
  /** It happened, and half of the answer came. */
  | { readonly kind: 'cut' }
  /** It is begun, and the connection breaks: it is over when it is asked about the second time. */
  | { readonly kind: 'running' }
  /** Nothing happened, and nothing came. */
  | { readonly kind: 'lost' }

interface Remembered {
  readonly text: string
  /** Null while the first call runs. */
  answer: Answer | null
}

export class FakeApi {
  readonly calls: Call[] = []
  readonly effects: Effect[] = []
  /** Of the next calls, in order. */
  mishaps: readonly Mishap[] = []
  /** What else a contract's handlers should be like. */
  given: Fields = {}
  readonly #contract: Contract
  readonly #memory = new Map<string, Remembered>()
  readonly #unhandled: string[] = []
  #served: ServedMsw | null = null

  constructor(contract: Contract) {
    this.#contract = contract
  }

  get origin(): string {
    return this.#served?.origin ?? 'http://127.0.0.1:9'
  }

  async start(): Promise<void> {
    const { origin, path, handlers } = this.#contract
    const submit = http.post(origin + path, ({ request }) => this.#answer(request))
    this.#served = await serveMsw({
      handlers: [submit, ...(handlers?.(this) ?? [])],
      base: origin,
      port: 0,
      onUnhandled: (route) => this.#unhandled.push(route),
      onError: (error) => this.#unhandled.push(String(error)),
    })
  }

  /** @returns calls that the contract does not describe. */
  async stop(): Promise<readonly string[]> {
    await this.#served?.close()
    return this.#unhandled
  }

  async #answer(request: Request): Promise<Response> {
    const call = await this.#read(request)
    const mishap = this.mishaps[this.calls.push(call) - 1] ?? { kind: 'none' }
    if (mishap.kind === 'lost') return HttpResponse.error()
    if (mishap.kind === 'refused') {
      if (mishap.saved) this.#remember(call, mishap.answer)
      return respond(mishap.answer)
    }
    const known = call.key === null ? undefined : this.#memory.get(call.key)
    if (known !== undefined && this.#contract.repeat !== undefined) return respond(this.#again(known, call))
    if (mishap.kind === 'running') {
      this.#remember(call, null)
      return HttpResponse.error()
    }
    const answer = this.#perform(call)
    this.#remember(call, answer)
    if (mishap.kind === 'cut') return cutInHalf(answer)
    return respond(mishap.kind === 'after' ? mishap.answer : answer)
  }

  async #read(request: Request): Promise<Call> {
    const text = await request.text()
    const isForm = request.headers.get('content-type')?.startsWith('application/x-www-form-urlencoded')
    const fields = isForm ? Object.fromEntries(new URLSearchParams(text)) : (JSON.parse(text) as Fields)
    const seen = { text, fields, headers: request.headers }
    return { ...seen, key: this.#contract.keyOf(seen) }
  }

  #remember({ key, text }: Call, answer: Answer | null): void {
    if (key !== null) this.#memory.set(key, { text, answer })
  }

  #again(known: Remembered, call: Call): Answer {
    const { repeat, busy } = this.#contract
    if (repeat === undefined || known.text !== call.text) throw new Error('the same key came with other bytes')
    if (known.answer !== null) return repeat(known.answer, call)
    known.answer = this.#perform(call)
    return busy ?? known.answer
  }

  #perform(call: Call): Answer {
    const id = this.#contract.idOf(this.effects.length + 1, call)
    this.effects.push({ id, call, at: Date.now() })
    return this.#contract.accept(id, call)
  }
}

export function respond(answer: Answer): Response {
  const json = jsonOf(answer)
  return new HttpResponse(json, { status: answer.status, headers: headersOf(answer, json) })
}

/** Without a body it is the head that breaks off: no answer at all. */
function cutInHalf(answer: Answer): Response {
  const json = jsonOf(answer)
  if (json === null) return HttpResponse.error()
  const stream = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(Buffer.from(json.slice(0, json.length / 2))),
    // Asked for more only once the half was taken.
    pull: (controller) => controller.error(new Error('cut')),
  })
  const headers = { ...headersOf(answer, json), 'content-length': String(Buffer.byteLength(json)) }
  return new HttpResponse(stream, { status: answer.status, headers })
}

function jsonOf({ body, json }: Answer): string | null {
  return json ?? (body === undefined ? null : JSON.stringify(body))
}

function headersOf({ headers = {} }: Answer, json: string | null): Record<string, string> {
  return json === null ? headers : { 'content-type': 'application/json', ...headers }
}
