// The servers and dials behind fault-table.ts. Each spoils one call and is well from the next connection on, so that a blind
// second call would be read and answered; or, where no call gets through, it is well once it is healed.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { TlsOptions } from 'node:tls'
import { Worker } from 'node:worker_threads'
import { HttpResponse, http } from 'msw'
import { buildConnector } from 'undici'
import { onTestFinished } from 'vitest'
import type { ConnectHook } from '../../src/target/http/agents.ts'
import { serveApi } from '../support/serve-api.ts'
import {
  closedPort,
  httpAnswer,
  type RawCall,
  type RawConnection,
  type RawServer,
  rawServer,
} from '../target/support/raw-server.ts'

export interface FaultyApi {
  readonly url: string
  /** Where the fault lies in the dial, or a test's certificate must be trusted. */
  readonly connectHook?: ConnectHook
  /** How far its application read each call; a connection of which nothing was read is none. */
  readonly calls: () => readonly RawCall[]
  readonly heal: () => void | Promise<void>
  /** For faults that are the caller's own: it is time to leave. */
  readonly isTimeToLeave?: () => boolean
}

export type Behaviour = (connection: RawConnection) => void

const HOST = '127.0.0.1'
const pem = (name: string) => readFileSync(new URL(`tls/${name}`, import.meta.url))
const KEY = pem('server.key')
const CA = pem('authority.pem')
/** For 127.0.0.1, by an authority of the tests' own. */
const CERTIFICATE: TlsOptions = { key: KEY, cert: pem('loopback.pem') }
export const CERTIFICATE_OF_ANOTHER: TlsOptions = { key: KEY, cert: pem('elsewhere.pem') }
/** @param version the only one that it speaks. */
export function demandingCertificate(version: 'TLSv1.2' | 'TLSv1.3'): TlsOptions {
  return {
    ...CERTIFICATE,
    ca: CA,
    requestCert: true,
    rejectUnauthorized: true,
    minVersion: version,
    maxVersion: version,
  }
}

/** The product's dial but for whom it trusts: the authorities of a process are read before any test runs. */
const trustingConnect = buildConnector({ ca: CA, timeout: 2000, allowH2: false })

/** Null where the target has no key. */
export function keyIn(text: string): string | null {
  return /^idempotency-key: *(.*?)\r?$/im.exec(text)?.[1] ?? null
}

export function goodAnswer(text: string): string {
  return httpAnswer(200, JSON.stringify({ id: keyIn(text) ?? 'task' }))
}

/** A well server: it reads each request and answers it. */
const serve: Behaviour = (connection) => {
  connection.onRequest(() => connection.socket.write(goodAnswer(connection.text())))
}

export const serveInTls: Behaviour = (connection) => connection.secure(CERTIFICATE, serve)

export async function well(): Promise<FaultyApi> {
  return apiOf(await rawServer(serve), {})
}

export async function spoilsOne(spoil: Behaviour): Promise<FaultyApi> {
  const server = await rawServer(inTurn(spoil, serve))
  return apiOf(server, {})
}

/** The first whole request, on whichever connection: one that was dialled for a call that gave up is none. */
export async function spoilsOneAnswer(answer: (socket: net.Socket, text: string) => void): Promise<FaultyApi> {
  let requests = 0
  const server = await rawServer((connection) => {
    connection.onRequest(() => {
      if (requests++ === 0) answer(connection.socket, connection.text())
      else connection.socket.write(goodAnswer(connection.text()))
    })
  })
  return apiOf(server, {})
}

/** The first request whose head and so many bytes of the body are read. */
export async function spoilsOneHalfRead(bodyBytes: number, spoil: Behaviour): Promise<FaultyApi> {
  let isSpoilt = false
  const server = await rawServer((connection) => {
    if (isSpoilt) return serve(connection)
    connection.onPart(bodyBytes, () => {
      isSpoilt = true
      spoil(connection)
    })
  })
  return apiOf(server, {})
}

/** By msw, whose handlers see requests and not bytes. */
export async function spoilsOneInHttp(answer: () => Promise<Response> | Response): Promise<FaultyApi> {
  const base = 'https://api.example.com'
  const calls: RawCall[] = []
  const origin = await serveApi(base, [
    http.post(`${base}/jobs`, async ({ request }) => {
      const head = [...request.headers].map(([name, value]) => `${name}: ${value}\r\n`)
      const text = `${head.join('')}\r\n${await request.text()}`
      calls.push({ read: 'whole', text })
      return calls.length === 1 ? answer() : HttpResponse.json({ id: keyIn(text) ?? 'task' })
    }),
  ])
  return { url: `${origin}/jobs`, calls: () => calls, heal: () => {} }
}

/** What a second server is asked counts as a call too. */
export async function redirectsOne(status: number, to: 'a second server' | 'a closed port'): Promise<FaultyApi> {
  const second = await rawServer(serve)
  const location = to === 'a second server' ? `${second.origin}/jobs` : `http://${HOST}:${await closedPort()}/jobs`
  const first = await spoilsOneInHttp(() => new HttpResponse(null, { status, headers: { location } }))
  return { ...first, calls: () => [...first.calls(), ...madeOn(second)] }
}

export async function refuses(): Promise<FaultyApi> {
  const port = await closedPort()
  let opened: RawServer | null = null
  return {
    url: `http://${HOST}:${port}/jobs`,
    calls: () => (opened === null ? [] : madeOn(opened)),
    heal: async () => {
      opened = await rawServer(serve, { port })
    },
  }
}

type Connect = buildConnector.connector

/** The server is well; what is dialled is not, until it is healed. @param name what the URL says instead of an address. */
export async function failsToDial(spoil: (connect: Connect) => Connect, name = HOST): Promise<FaultyApi> {
  let isHealed = false
  const server = await rawServer(serve)
  const connectHook: ConnectHook = (connect) => {
    const spoilt = spoil(connect)
    return (options, callback) =>
      isHealed ? connect({ ...options, hostname: HOST }, callback) : spoilt(options, callback)
  }
  return {
    url: `http://${name}:${server.port}/jobs`,
    connectHook,
    calls: () => madeOn(server),
    heal: () => {
      isHealed = true
    },
  }
}

/** What a resolver says; the product's own cannot be told what to say. */
export function resolvingTo(answer: readonly string[] | Error): (connect: Connect) => Connect {
  const lookup: net.LookupFunction = (_name, _options, callback) => {
    if (answer instanceof Error) callback(answer as NodeJS.ErrnoException, [])
    else callback(null, [...answer.map((address) => ({ address, family: net.isIP(address) }))])
  }
  return () => buildConnector({ lookup, timeout: 2000, allowH2: false } as buildConnector.BuildOptions)
}

/** The product has no such setting; the path is that of a socket that is not there. */
export function unixSocketMissing(): Connect {
  return buildConnector({ socketPath: join(tmpdir(), 'onceish-no-such.sock'), timeout: 2000, allowH2: false })
}

/** Under TLS, healed by a good certificate of an authority that is trusted then, or `isTrusted` from the start. */
export async function failsInTls(spoil: Behaviour, { isTrusted = false } = {}): Promise<FaultyApi> {
  let isHealed = false
  const server = await rawServer((connection) => {
    if (isHealed) serveInTls(connection)
    else spoil(connection)
  })
  const connectHook: ConnectHook = (connect) => (options, callback) =>
    (isHealed || isTrusted ? trustingConnect : connect)(options, callback)
  const heal = () => {
    isHealed = true
  }
  return apiOf(server, { scheme: 'https', connectHook, heal })
}

export async function spoilsOneInTls(spoil: Behaviour): Promise<FaultyApi> {
  const server = await rawServer(inTurn(spoil, serveInTls))
  return apiOf(server, { scheme: 'https', connectHook: () => trustingConnect })
}

/** Accepts and resets. Whether that is seen before the write is a race outside; here the dial waits for it. */
export async function resetsBeforeTheWrite(): Promise<FaultyApi> {
  let isHealed = false
  const server = await rawServer((connection) => (isHealed ? serve(connection) : connection.reset()))
  const connectHook: ConnectHook = (connect) => (options, callback) =>
    connect(options, (...result) => {
      if (isHealed || !result[1]) callback(...result)
      else result[1].on('error', () => {}).once('close', () => callback(...result))
    })
  const heal = () => {
    isHealed = true
  }
  return apiOf(server, { connectHook, heal })
}

/** The same, where the reset waits for the write. */
export async function resetsAfterTheWrite(): Promise<FaultyApi> {
  let isWritten = false
  const connectHook: ConnectHook = (connect) => (options, callback) =>
    connect(options, (...result) => {
      callback(...result)
      whenever(() => (result[1]?.bytesWritten ?? 0) > 0).then(() => {
        isWritten = true
      })
    })
  const api = await spoilsOne((connection) => {
    whenever(() => isWritten).then(() => connection.reset())
  })
  return { ...api, connectHook }
}

/** The caller leaves once the whole call is read, or once a head is back. */
export async function isLeft(when: 'unanswered' | 'after the head', answer = ''): Promise<FaultyApi> {
  const dialled: net.Socket[] = []
  const connectHook: ConnectHook = (connect) => (options, callback) =>
    connect(options, (...result) => {
      if (result[1]) dialled.push(result[1])
      callback(...result)
    })
  const api = await spoilsOneAnswer((socket) => socket.write(answer))
  const isTimeToLeave = () =>
    when === 'unanswered' ? api.calls().length > 0 : (dialled[0]?.bytesRead ?? 0) >= answer.length
  return { ...api, connectHook, isTimeToLeave }
}

/** The kernel accepts and the application does not, until it is healed. @param how a full queue: the kernel neither. */
export async function isDeaf(how: 'room in the queue' | 'queue full'): Promise<FaultyApi> {
  const awake = new Int32Array(new SharedArrayBuffer(4))
  const calls: RawCall[] = []
  const backlog = how === 'queue full' ? 1 : 16
  const thread = new Worker(new URL('deaf-server.mjs', import.meta.url), { workerData: { awake, backlog } })
  onTestFinished(async () => {
    await thread.terminate()
  })
  const [{ port }] = (await once(thread, 'message')) as [{ port: number }]
  thread.on('message', ({ text }: { text: string }) => calls.push({ read: 'whole', text }))
  const fillers = how === 'queue full' ? await fillQueue(port) : []
  return {
    url: `http://${HOST}:${port}/jobs`,
    calls: () => calls,
    heal: () => {
      for (const filler of fillers) filler.destroy()
      Atomics.store(awake, 0, 1)
      Atomics.notify(awake, 0)
    },
  }
}

const SURELY_DROPPED_MS = 300
const MANY = 64

/** Dials until a dial hangs: from then on the kernel drops every first packet. */
async function fillQueue(port: number): Promise<net.Socket[]> {
  const fillers: net.Socket[] = []
  while (fillers.length < MANY) {
    const filler = net.connect(port, HOST).on('error', () => {})
    fillers.push(filler)
    onTestFinished(() => void filler.destroy())
    const hangs = AbortSignal.timeout(SURELY_DROPPED_MS)
    const isIn = await once(filler, 'connect', { signal: hangs }).then(
      () => true,
      () => false,
    )
    if (!isIn) return fillers
  }
  throw new Error(`the queue of a server that accepts nothing took ${MANY} connections`)
}

function inTurn(first: Behaviour, then: Behaviour): Behaviour {
  let connections = 0
  return (connection) => (connections++ === 0 ? first : then)(connection)
}

function madeOn(server: RawServer): RawCall[] {
  return server.calls().filter(({ read }) => read !== 'nothing')
}

function apiOf(
  { port, ...server }: RawServer,
  more: Partial<Pick<FaultyApi, 'connectHook' | 'heal'>> & { readonly scheme?: string },
): FaultyApi {
  const { scheme = 'http', heal = () => {}, ...others } = more
  return { url: `${scheme}://${HOST}:${port}/jobs`, calls: () => madeOn({ port, ...server }), heal, ...others }
}

async function whenever(condition: () => boolean): Promise<void> {
  while (!condition()) await nextTurn()
}
