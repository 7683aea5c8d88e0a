// A server on a raw loopback socket that can misbehave at any byte, and knows what it really read.
import net from 'node:net'
import { afterEach } from 'vitest'

export interface RawConnection {
  readonly socket: net.Socket
  /** The text of the one request read so far. */
  text(): string
  /** Runs once the whole request is read. */
  onRequest(react: () => void): void
  reset(): void
}

export interface RawServer {
  readonly origin: string
  readonly port: number
  /** What the application read: whole requests as text, all bytes, all connections. */
  readonly requests: string[]
  readonly bytes: () => number
  readonly connections: () => number
}

const running: (() => Promise<void>)[] = []

afterEach(async () => {
  await Promise.all(running.splice(0).map((close) => close()))
})

/** @param react what it does with each connection; it reads only after `onRequest` or `socket.resume()`. */
export async function rawServer(react: (connection: RawConnection) => void): Promise<RawServer> {
  const requests: string[] = []
  const sockets = new Set<net.Socket>()
  let bytes = 0
  let connections = 0
  const server = net.createServer({ noDelay: true, pauseOnConnect: true }, (socket) => {
    let buffer = Buffer.alloc(0)
    let onRequest: (() => void) | null = null
    connections++
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    socket.on('data', (chunk) => {
      bytes += chunk.length
      buffer = Buffer.concat([buffer, chunk])
      if (!isWhole(buffer)) return
      requests.push(buffer.toString('utf8'))
      buffer = Buffer.alloc(0)
      onRequest?.()
    })
    socket.pause()
    react({
      socket,
      text: () => buffer.toString('utf8'),
      onRequest: (then) => {
        onRequest = then
        socket.resume()
      },
      reset: () => socket.resetAndDestroy(),
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  running.push(
    () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  )
  const { port } = server.address() as net.AddressInfo
  return { origin: `http://127.0.0.1:${port}`, port, requests, bytes: () => bytes, connections: () => connections }
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

function isWhole(buffer: Buffer): boolean {
  const end = buffer.indexOf('\r\n\r\n')
  if (end < 0) return false
  const length = /content-length: *(\d+)/i.exec(buffer.subarray(0, end).toString('latin1'))?.[1]
  return buffer.length - end - 4 >= Number(length ?? 0)
}
