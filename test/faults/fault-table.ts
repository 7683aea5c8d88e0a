// What can happen to one HTTP call, and what onceish makes of it. Numbers and the measured behaviour of undici are those of a
// study of 59 faults on loopback; where a row ends otherwise than undici's own words, it says why.
import { gzipSync } from 'node:zlib'
import { HttpResponse } from 'msw'
import type { CallPhase } from '../../src/core/outcome.ts'
import type { PreparedCall } from '../../src/core/prepared-call.ts'
import type { ReadPart } from '../target/support/raw-server.ts'
import {
  CERTIFICATE_OF_ANOTHER,
  demandingCertificate,
  type FaultyApi,
  failsInTls,
  failsToDial,
  goodAnswer,
  isDeaf,
  isLeft,
  redirectsOne,
  refuses,
  resetsAfterTheWrite,
  resetsBeforeTheWrite,
  resolvingTo,
  serveInTls,
  spoilsOne,
  spoilsOneAnswer,
  spoilsOneHalfRead,
  spoilsOneInHttp,
  spoilsOneInTls,
  unixSocketMissing,
  well,
} from './fault-servers.ts'

export interface Fault {
  readonly number: string
  readonly name: string
  readonly api: () => Promise<FaultyApi>
  /** How far the first call surely got. */
  readonly verdict: CallPhase
  /** Of the answer, where a head came. */
  readonly status?: number
  /** What the server's application read of the first call. */
  readonly read: ReadPart
  /**
   * Where a request of an opaque target ends. `put back`: in the queue, its budget whole, and submitted once the fault is
   * gone. A keyed one ends alike, but what is held here is replayed there.
   */
  readonly opaque: 'put back' | 'held' | 'submitted' | 'dead'
  /** What nothing else ends: the call's own deadline does or, in a dial, `connectMs`, or the worker that is stopped. */
  readonly endsBy?: 'deadline' | 'dial' | 'caller'
  readonly bodyBytes?: number
  /** What a loader or a template would refuse: the call as it must never come to be. */
  readonly bend?: (call: PreparedCall) => PreparedCall
  /** The bytes wait in the kernel, and are read when the caller has long given up. */
  readonly isReadLate?: true
}

const MIB = 1_048_576
const BIG = 6 * MIB
const OK = 'HTTP/1.1 200 OK\r\n'
const JSON_OK = `${OK}content-type: application/json\r\n`
const CUT = { verdict: 'cut', status: 200, read: 'whole', opaque: 'held' } as const
const UNANSWERED = { verdict: 'unanswered', read: 'whole', opaque: 'held' } as const
const NOT_SENT = { verdict: 'not_sent', read: 'nothing', opaque: 'put back' } as const
const HELLO_ONLY = { ...NOT_SENT, read: 'hello' } as const
const INVALID = { verdict: 'not_sent', read: 'nothing', opaque: 'dead' } as const
const SUBMITTED = { verdict: 'answered', status: 200, read: 'whole', opaque: 'submitted' } as const
const IN_DOUBT = { verdict: 'answered', read: 'whole', opaque: 'held' } as const

const withHeader = (name: string, value: string) => (call: PreparedCall) => ({
  ...call,
  headers: { ...call.headers, [name]: value },
})

const temporarily = Object.assign(new Error('getaddrinfo EAI_AGAIN'), { code: 'EAI_AGAIN' })

export const FAULTS: readonly Fault[] = [
  { number: '1', name: 'connection refused', api: refuses, ...NOT_SENT },
  {
    number: '2',
    name: 'connection refused on every address of a name',
    api: () => failsToDial(resolvingTo(['::1', '127.0.0.2']), 'two-addresses.test'),
    ...NOT_SENT,
  },
  {
    number: '3',
    name: 'name does not resolve',
    // No name can have so long a part, so no network is asked.
    api: () => failsToDial((connect) => connect, `${'x'.repeat(64)}.test`),
    ...NOT_SENT,
  },
  {
    number: '4',
    name: 'resolver fails for now',
    api: () => failsToDial(resolvingTo(temporarily), 'later.test'),
    ...NOT_SENT,
  },
  {
    number: '5',
    name: 'local address cannot be bound',
    // An address for documentation (RFC 5737), which no machine has.
    api: () =>
      failsToDial((connect) => (options, callback) => connect({ ...options, localAddress: '192.0.2.1' }, callback)),
    ...NOT_SENT,
  },
  { number: '6', name: 'unix socket path missing', api: () => failsToDial(unixSocketMissing), ...NOT_SENT },
  {
    number: '7',
    name: 'accept queue full, SYN dropped',
    api: () => isDeaf('queue full'),
    endsBy: 'dial',
    ...NOT_SENT,
  },
  { number: '8', name: 'TLS: certificate not trusted', api: () => failsInTls(serveInTls), ...NOT_SENT },
  {
    number: '9',
    name: 'TLS: certificate for another name',
    api: () => failsInTls((connection) => connection.secure(CERTIFICATE_OF_ANOTHER, () => {}), { isTrusted: true }),
    ...NOT_SENT,
  },
  {
    number: '10',
    name: 'TLS client to a plain-HTTP server',
    api: () =>
      failsInTls(({ socket }) => {
        socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n')).resume()
      }),
    ...HELLO_ONLY,
  },
  {
    number: '11',
    name: 'TLS: peer closes during the handshake',
    api: () => failsInTls(({ socket }) => void socket.once('data', () => socket.destroy()).resume()),
    ...HELLO_ONLY,
  },
  {
    number: '12',
    name: 'TLS: peer resets during the handshake',
    api: () => failsInTls(({ socket }) => void socket.once('data', () => socket.resetAndDestroy()).resume()),
    ...HELLO_ONLY,
  },
  {
    number: '13',
    name: 'TLS: peer never answers the ClientHello',
    api: () => failsInTls(({ socket }) => void socket.resume()),
    endsBy: 'dial',
    ...HELLO_ONLY,
  },
  {
    number: '14',
    name: 'header value with CR LF (invalid argument)',
    api: well,
    bend: withHeader('x-note', 'a\r\nx-more: b'),
    ...INVALID,
  },
  {
    number: '15',
    name: 'content-length differs from the body',
    api: well,
    bend: withHeader('content-length', '3'),
    ...INVALID,
  },
  {
    number: '16',
    name: 'expect: 100-continue asked for (not supported on h1)',
    api: well,
    bend: withHeader('expect', '100-continue'),
    ...INVALID,
  },
  {
    number: '17',
    name: 'TLS 1.3: server demands a client certificate',
    // The client's handshake ends first, and it writes before the demand reaches it.
    api: () => spoilsOneInTls((connection) => connection.secure(demandingCertificate('TLSv1.3'), () => {})),
    ...UNANSWERED,
    read: 'nothing',
  },
  {
    number: '18',
    name: 'TLS 1.2: server demands a client certificate',
    api: () =>
      failsInTls((connection) => connection.secure(demandingCertificate('TLSv1.2'), () => {}), { isTrusted: true }),
    ...NOT_SENT,
  },
  {
    number: '19',
    name: 'accepts, closes without reading',
    api: () => spoilsOne(({ socket }) => socket.destroy()),
    ...UNANSWERED,
    read: 'nothing',
  },
  {
    number: '20',
    name: 'accepts, resets without reading, seen before the write',
    api: resetsBeforeTheWrite,
    ...NOT_SENT,
  },
  {
    number: '20b',
    name: 'accepts, resets without reading, after the write',
    api: resetsAfterTheWrite,
    ...UNANSWERED,
    read: 'nothing',
  },
  {
    number: '21',
    name: 'kernel accepts, application never does',
    api: () => isDeaf('room in the queue'),
    endsBy: 'deadline',
    isReadLate: true,
    ...UNANSWERED,
    read: 'nothing',
  },
  {
    number: '22',
    name: 'reads half of a 6 MiB body, closes',
    api: () => spoilsOneHalfRead(BIG / 2, ({ socket }) => socket.destroy()),
    bodyBytes: BIG,
    ...UNANSWERED,
    read: 'part',
  },
  {
    number: '23',
    name: 'reads half of a 6 MiB body, resets',
    api: () => spoilsOneHalfRead(BIG / 2, ({ reset }) => reset()),
    bodyBytes: BIG,
    ...UNANSWERED,
    read: 'part',
  },
  {
    number: '24',
    name: 'stops reading a 6 MiB body',
    api: () => spoilsOneHalfRead(0, ({ socket }) => void socket.pause()),
    bodyBytes: BIG,
    endsBy: 'deadline',
    ...UNANSWERED,
    read: 'part',
  },
  {
    number: '25',
    name: 'reads all, closes without an answer',
    api: () => spoilsOneAnswer((socket) => socket.end()),
    ...UNANSWERED,
  },
  {
    number: '26',
    name: 'reads all, resets without an answer',
    api: () => spoilsOneInHttp(() => HttpResponse.error()),
    ...UNANSWERED,
  },
  {
    number: '27',
    name: 'reads all, never answers',
    api: () => spoilsOneAnswer(() => {}),
    endsBy: 'deadline',
    ...UNANSWERED,
  },
  {
    number: '28',
    name: 'reads all, caller aborts while waiting',
    api: () => isLeft('unanswered'),
    endsBy: 'caller',
    ...UNANSWERED,
  },
  {
    number: '29',
    name: 'status line cut in the middle, close',
    api: () => spoilsOneAnswer((socket) => socket.end('HTTP/1.1 20')),
    ...UNANSWERED,
  },
  {
    number: '30',
    name: 'head cut before the blank line, close',
    api: () => spoilsOneAnswer((socket) => socket.end(JSON_OK)),
    ...UNANSWERED,
  },
  {
    number: '31',
    name: 'head cut before the blank line, stall',
    api: () => spoilsOneAnswer((socket) => socket.write(JSON_OK)),
    endsBy: 'deadline',
    ...UNANSWERED,
  },
  {
    number: '32',
    name: 'not HTTP at all',
    api: () => spoilsOneAnswer((socket) => socket.end('220 mail.example ESMTP ready\r\n')),
    ...UNANSWERED,
  },
  {
    number: '33',
    name: 'garbage line before a good response',
    api: () => spoilsOneAnswer((socket, text) => socket.end(`garbage\r\n${goodAnswer(text)}`)),
    ...UNANSWERED,
  },
  {
    number: '34',
    name: 'blank line before a good response',
    api: () => spoilsOneAnswer((socket, text) => socket.write(`\r\n${goodAnswer(text)}`)),
    ...SUBMITTED,
  },
  {
    number: '35',
    name: 'two different content-length headers',
    api: () =>
      spoilsOneAnswer((socket) => socket.end(`${JSON_OK}content-length: 13\r\ncontent-length: 3\r\n\r\n{"id":"task"}`)),
    ...UNANSWERED,
  },
  {
    number: '36',
    name: 'response head of 64 KiB',
    api: () =>
      spoilsOneAnswer((socket) => socket.end(`${OK}x-long: ${'x'.repeat(65_536)}\r\ncontent-length: 0\r\n\r\n`)),
    ...UNANSWERED,
  },
  {
    number: '37',
    name: '100 Continue that nobody asked for, then 200',
    api: () => spoilsOneAnswer((socket, text) => socket.write(`HTTP/1.1 100 Continue\r\n\r\n${goodAnswer(text)}`)),
    ...UNANSWERED,
  },
  {
    number: '38',
    name: '102 Processing, then reset',
    api: () =>
      spoilsOneAnswer((socket) => socket.write('HTTP/1.1 102 Processing\r\n\r\n', () => socket.resetAndDestroy())),
    ...UNANSWERED,
  },
  {
    number: '39',
    name: '101 Switching Protocols nobody asked for',
    api: () =>
      spoilsOneAnswer((socket) =>
        socket.write('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
      ),
    ...UNANSWERED,
  },
  {
    number: '40',
    name: '413 after the head of a 6 MiB body, then reset',
    api: () =>
      spoilsOneHalfRead(0, ({ socket, reset }) => {
        socket.pause()
        socket.write('HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n', reset)
      }),
    bodyBytes: BIG,
    verdict: 'answered',
    status: 413,
    read: 'part',
    opaque: 'dead',
  },
  {
    number: '41',
    name: '413 after the head of a 6 MiB body, then close',
    api: () =>
      spoilsOneHalfRead(0, ({ socket }) => {
        socket.pause()
        socket.end('HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n')
      }),
    bodyBytes: BIG,
    verdict: 'answered',
    status: 413,
    read: 'part',
    opaque: 'dead',
  },
  {
    number: '42',
    name: '103 Early Hints, then 200',
    api: () =>
      spoilsOneAnswer((socket, text) =>
        socket.write(`HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n${goodAnswer(text)}`),
      ),
    ...SUBMITTED,
  },
  {
    number: '43',
    name: 'head, half the body, stall',
    api: () => spoilsOneAnswer((socket) => socket.write(`${JSON_OK}content-length: 13\r\n\r\n{"id":`)),
    endsBy: 'deadline',
    ...CUT,
  },
  {
    number: '44',
    name: 'body shorter than content-length, close',
    api: () => spoilsOneAnswer((socket) => socket.end(`${JSON_OK}content-length: 13\r\n\r\n{"id":`)),
    ...CUT,
  },
  {
    number: '45',
    name: 'body shorter than content-length, reset',
    api: () =>
      spoilsOneAnswer((socket) =>
        socket.write(`${JSON_OK}content-length: 13\r\n\r\n{"id":`, () => socket.resetAndDestroy()),
      ),
    ...CUT,
  },
  {
    number: '46',
    name: 'chunked body without the last chunk, close',
    api: () =>
      spoilsOneAnswer((socket) => socket.end(`${JSON_OK}transfer-encoding: chunked\r\n\r\nd\r\n{"id":"task"}\r\n`)),
    ...CUT,
  },
  {
    number: '47',
    name: 'no length, body ends at close (cut, undetectable)',
    // Only that no task id can be read tells that something is missing.
    api: () => spoilsOneAnswer((socket) => socket.end(`${JSON_OK}\r\n{"id":`)),
    ...IN_DOUBT,
    status: 200,
  },
  {
    number: '48',
    name: 'invalid chunk size',
    api: () =>
      spoilsOneAnswer((socket) => socket.end(`${JSON_OK}transfer-encoding: chunked\r\n\r\nzz\r\n{"id":"task"}\r\n`)),
    ...CUT,
  },
  {
    number: '49',
    name: '8 MiB body, bound 1 MiB',
    // Cut at the head, by its content-length.
    api: () =>
      spoilsOneAnswer((socket) => socket.end(`${JSON_OK}content-length: ${8 * MIB}\r\n\r\n${'x'.repeat(8 * MIB)}`)),
    ...CUT,
  },
  {
    number: '50',
    name: 'caller aborts after the head',
    api: () => isLeft('after the head', `${JSON_OK}content-length: 13\r\n\r\n{"id":`),
    endsBy: 'caller',
    ...CUT,
  },
  {
    number: '51',
    name: '200 with invalid JSON',
    api: () => spoilsOneInHttp(() => jsonText('{"id":')),
    ...IN_DOUBT,
    status: 200,
  },
  {
    number: '52',
    name: 'content-encoding: gzip, broken data',
    // undici hands the bytes over as they are, and calls it answered. Inflating them is ours, and so is the failure: what
    // was said after the head is lost.
    api: () => spoilsOneInHttp(() => jsonText('no gzip at all', { 'content-encoding': 'gzip' })),
    ...CUT,
  },
  {
    number: '52b',
    name: 'content-encoding: gzip, 16 MiB in 16 KiB, bound 1 MiB',
    api: () => spoilsOneInHttp(() => jsonText(gzipSync(Buffer.alloc(16 * MIB)), { 'content-encoding': 'gzip' })),
    ...CUT,
  },
  {
    number: '53',
    name: '204',
    api: () => spoilsOneInHttp(() => new HttpResponse(null, { status: 204 })),
    ...IN_DOUBT,
    status: 204,
  },
  {
    number: '54',
    name: '502',
    api: () => spoilsOneInHttp(() => HttpResponse.json({}, { status: 502 })),
    ...IN_DOUBT,
    status: 502,
  },
  {
    number: '55',
    name: '307 to a second server',
    api: () => redirectsOne(307, 'a second server'),
    ...IN_DOUBT,
    status: 307,
  },
  {
    number: '56',
    name: '308 to a closed port',
    api: () => redirectsOne(308, 'a closed port'),
    ...IN_DOUBT,
    status: 308,
  },
  {
    number: '57',
    name: '303 to a second server',
    api: () => redirectsOne(303, 'a second server'),
    ...IN_DOUBT,
    status: 303,
  },
  {
    number: '58',
    name: '200 sent before reading the request',
    // The answer is the API's word, whatever it has read.
    api: () => spoilsOne(({ socket }) => void socket.write(goodAnswer(''))),
    ...SUBMITTED,
    read: 'nothing',
  },
  {
    number: '59',
    name: 'a plain 200',
    api: () => spoilsOneInHttp(() => HttpResponse.json({ id: 'task' })),
    ...SUBMITTED,
  },
]

function jsonText(body: string | Buffer<ArrayBuffer>, headers: Record<string, string> = {}): Response {
  return new HttpResponse(body, { headers: { 'content-type': 'application/json', ...headers } })
}
