// A TCP proxy before a PostgreSQL server. It knows the protocol as far as it must to cut a connection right before or right after the
// server has heard a COMMIT, to swallow notifications, and to forget prepared statements as a pooler does.
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** `unheard`: the server never gets it; `unanswered`: it commits, and nobody is told; `silent`: unheard, and the link is silent. */
export type Cut = 'unheard' | 'unanswered' | 'silent'

export interface PostgresProxy {
  /** The same database through it. */
  readonly url: string
  /** How many connections were made through it so far. */
  readonly connections: number
  /** As a pooler: how often names were forgotten, and how many notifications were swallowed. */
  readonly forgotten: number
  readonly swallowed: number
  /** Cuts what there is, and takes nothing until `open`. */
  close(): void
  open(): void
  /** New connections lead to another server, as an address that a failover moves. */
  moveTo(port: number): void
  /** Passes nothing on in either direction, and tells nobody: a link that was cut. */
  silence(): void
  speak(): void
  /** Cuts at the next COMMIT of a transaction that has sent `having`. @param closes and takes no connections until `open`. */
  cutAtCommit(cut: Cut, having: string, options?: { readonly closes?: boolean }): { readonly done: boolean }
}

export interface ProxyOptions {
  /** Each transaction finds the names of prepared statements forgotten, and notifications are lost, as with a pooler. */
  readonly asPooler?: boolean
}

/** To be called in a test: it closes with it. */
export async function startProxy(url: string, { asPooler = false }: ProxyOptions = {}): Promise<PostgresProxy> {
  const { hostname } = new URL(url)
  let port = Number(new URL(url).port)
  const pairs = new Set<Pair>()
  let isOpen = true
  let isSilent = false
  let connections = 0
  let forgotten = 0
  let swallowed = 0
  let armed: (Armed & { done: boolean }) | null = null

  const server = createServer((client) => {
    client.on('error', () => {})
    if (!isOpen) return void client.destroy()
    connections++
    const upstream = dial(port, hostname)
    const pair = createPair(client, upstream, asPooler, {
      isSilent: () => isSilent,
      armed: () => armed,
      forgets: () => forgotten++,
      swallows: () => swallowed++,
      spent: () => {
        if (armed === null) return
        armed.done = true
        if (armed.closes) close()
        if (armed.cut === 'silent') isSilent = true
        armed = null
      },
    })
    pairs.add(pair)
    client.on('close', () => pairs.delete(pair))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = () => {
    isOpen = false
    for (const pair of pairs) pair.cut()
  }
  onTestFinished(() => {
    close()
    server.close()
  })
  const through = new URL(url)
  through.hostname = '127.0.0.1'
  through.port = String((server.address() as AddressInfo).port)
  return {
    url: through.toString(),
    get connections() {
      return connections
    },
    get forgotten() {
      return forgotten
    },
    get swallowed() {
      return swallowed
    },
    close,
    open: () => {
      isOpen = true
    },
    moveTo: (other) => {
      port = other
    },
    silence: () => {
      isSilent = true
    },
    speak: () => {
      isSilent = false
      for (const pair of pairs) pair.cut()
    },
    cutAtCommit: (cut, having, { closes = false } = {}) => {
      armed = { cut, having, closes, done: false }
      return armed
    },
  }
}

interface Armed {
  readonly cut: Cut
  readonly having: string
  readonly closes: boolean
}

interface Pair {
  cut(): void
}

interface Word {
  readonly isSilent: () => boolean
  readonly armed: () => Armed | null
  readonly spent: () => void
  readonly forgets: () => void
  readonly swallows: () => void
}

const BEGIN = Buffer.from('BEGIN ')
const COMMIT = Buffer.from('COMMIT\0')
const FORGET = Buffer.from('DEALLOCATE ALL\0')

function createPair(client: Socket, upstream: Socket, asPooler: boolean, word: Word): Pair {
  let sent = ''
  /** The answer to COMMIT is waited for, and not passed on. */
  let isLastAnswer = false
  /** What the client says is kept until the server has forgotten. */
  let kept: Buffer[] | null = null
  let isForgetting = false
  const cut = () => {
    client.destroy()
    upstream.destroy()
  }
  const fromServer = createFrames((type, frame) => {
    if (isLastAnswer) {
      if (type !== 'C' || !frame.includes(COMMIT)) return
      word.spent()
      return cut()
    }
    if (isForgetting) {
      if (type !== 'Z') return
      isForgetting = false
      for (const chunk of kept?.splice(0) ?? []) upstream.write(chunk)
      kept = null
      return
    }
    if (asPooler && type === 'A') return void word.swallows()
    client.write(frame)
  })

  client.on('data', (chunk: Buffer) => {
    if (word.isSilent()) return
    if (chunk.includes(BEGIN)) {
      sent = ''
      if (asPooler) {
        word.forgets()
        isForgetting = true
        kept = []
        const length = Buffer.alloc(5)
        length.write('Q')
        length.writeInt32BE(FORGET.length + 4, 1)
        upstream.write(Buffer.concat([length, FORGET]))
      }
    }
    sent += chunk.toString('latin1')
    const armed = word.armed()
    if (armed !== null && chunk.includes(COMMIT) && sent.includes(armed.having)) {
      if (armed.cut !== 'unanswered') {
        word.spent()
        return armed.cut === 'silent' ? undefined : cut()
      }
      isLastAnswer = true
    }
    if (kept !== null) kept.push(chunk)
    else upstream.write(chunk)
  })
  upstream.on('data', (chunk: Buffer) => {
    if (!word.isSilent()) fromServer(chunk)
  })
  upstream.on('error', () => {})
  client.on('close', () => upstream.destroy())
  upstream.on('close', () => client.destroy())
  return { cut }
}

/** Whole messages of the server, each with its type. */
function createFrames(each: (type: string, frame: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (chunk) => {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= 5 && rest.length >= 1 + rest.readInt32BE(1)) {
      const end = 1 + rest.readInt32BE(1)
      const frame = rest.subarray(0, end)
      rest = rest.subarray(end)
      each(String.fromCharCode(frame[0] ?? 0), frame)
    }
  }
}
