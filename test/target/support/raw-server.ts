// A server on a raw loopback socket that can misbehave at any byte, in TLS or under it, and knows what it really read.
import net from 'node:net'
import tls from 'node:tls'
import { afterEach } from 'vitest'

export interface RawConnection {
  /** What is read and written: under TLS the plain side. */
  readonly socket: net.Socket
  /** The text of the one request read so far. */
  text(): string
  /** Runs once the whole request is read. */
  onRequest(react: () => void): void
  /** Runs once the head and so many bytes of the body are read. */
  onPart(bodyBytes: number, react: () => void): void
  /** From here on it speaks TLS. */
  secure(options: tls.TlsOptions, react: (inner: RawConnection) => void): void
  reset(): void
}

/** How far the application read one call. `hello`: what a TLS client begins with. */
export type ReadPart = 'nothing' | 'hello' | 'part' | 'whole'

/** What the application read of one call: of each connection the first, and those that follow on it. */
export interface RawCall {
  readonly read: ReadPart
  readonly text: string
}

export interface RawServer {
  readonly origin: string
  readonly port: number
  /** What the application read: whole requests as text, all bytes, all connections. */
  readonly requests: string[]
  readonly calls: () => RawCall[]
  readonly bytes: () => number
  readonly connections: () => number
}

const TLS_HANDSHAKE = 0x16

const running: (() => Promise<void>)[] = []

afterEach(async () => {
  await Promise.all(running.splice(0).map((close) => close()))
})

/** @param react what it does with each connection; it reads only after `onRequest`, `onPart` or `socket.resume()`. */
export async function rawServer(react: (connection: RawConnection) => void, { port = 0 } = {}): Promise<RawServer> {
  const requests: string[] = []
  const readings: Reading[] = []
  const sockets = new Set<net.Socket>()
  let bytes = 0
  let connections = 0

  function connectionOn(socket: net.Socket): RawConnection {
    let reading = startReading()
    let onRequest: (() => void) | null = null
    let onPart: { readonly bodyBytes: number; readonly react: () => void } | null = null
    readings.push(reading)
    const read = (chunk: Buffer): void => {
      if (reading.isWhole()) {
        reading = startReading()
        readings.push(reading)
      }
      const rest = reading.add(chunk)
      bytes += chunk.length - rest.length
      if (onPart !== null && reading.bodyBytes() >= onPart.bodyBytes) {
        const then = onPart.react
        onPart = null
        then()
      }
      if (!reading.isWhole()) return
      requests.push(reading.text())
      onRequest?.()
      if (rest.length > 0) read(rest)
    }
    socket.on('error', () => {}).on('data', read)
    socket.pause()
    return {
      socket,
      text: () => reading.text(),
      onRequest: (then) => {
        onRequest = then
        socket.resume()
      },
      onPart: (bodyBytes, then) => {
        onPart = { bodyBytes, react: then }
        socket.resume()
      },
      secure: (options, then) => {
        socket.off('data', read)
        const layer = tls.createServer(options, (inner) => then(connectionOn(inner)))
        layer.on('tlsClientError', () => {}).emit('connection', socket)
      },
      reset: () => socket.resetAndDestroy(),
    }
  }

  const server = net.createServer({ noDelay: true, pauseOnConnect: true }, (socket) => {
    connections++
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    react(connectionOn(socket))
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve))
  running.push(
    () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  )
  const address = server.address() as net.AddressInfo
  return {
    origin: `http://127.0.0.1:${address.port}`,
    port: address.port,
    requests,
    calls: () => readings.map((reading) => ({ read: reading.part(), text: reading.text() })),
    bytes: () => bytes,
    connections: () => connections,
  }
}

/** A server that answers each request with the next text, the last one for ever. */
export function answering(...answers: string[]): Promise<RawServer> {
  let next = 0
  return rawServer((connection) => {
    connection.onRequest(() => {
      connection.socket.write(answers[Math.min(next++, answers.length - 1)] ?? '')
    })
  })
}

export function httpAnswer(status: number, body: string, headers: Record<string, string> = {}): string {
  const all = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)), ...headers }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} X\r\n${lines.join('')}\r\n${body}`
}

/** A port on which nobody listens. */
export async function closedPort(): Promise<number> {
  const server = net.createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as net.AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

interface Reading {
  /** @returns what is no longer of this request. */
  add(chunk: Buffer): Buffer
  /** Of the body so far; -1 while the head is not whole. */
  bodyBytes(): number
  isWhole(): boolean
  part(): ReadPart
  text(): string
}

/** One request as its bytes come in. */
function startReading(): Reading {
  const chunks: Buffer[] = []
  let size = 0
  let headBytes = -1
  let wantBytes = Number.POSITIVE_INFINITY

  function findHead(head: Buffer): void {
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) return
    headBytes = end + 4
    wantBytes = Number(/content-length: *(\d+)/i.exec(head.subarray(0, end).toString('latin1'))?.[1] ?? 0)
  }

  const bodyBytes = () => (headBytes < 0 ? -1 : size - headBytes)
  const isWhole = () => bodyBytes() >= wantBytes
  return {
    add: (chunk) => {
      size += chunk.length
      if (headBytes < 0) findHead(Buffer.concat([...chunks, chunk]))
      const kept = chunk.length - Math.max(0, bodyBytes() - wantBytes)
      chunks.push(chunk.subarray(0, kept))
      size += kept - chunk.length
      return chunk.subarray(kept)
    },
    bodyBytes,
    isWhole,
    part: () => {
      if (headBytes >= 0) return isWhole() ? 'whole' : 'part'
      return chunks[0]?.[0] === TLS_HANDSHAKE ? 'hello' : 'nothing'
    },
    text: () => Buffer.concat(chunks).toString('utf8'),
  }
}
