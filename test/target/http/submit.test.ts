import type net from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { buildConnector, type Dispatcher, interceptors } from 'undici'
import { afterEach, describe, expect, it } from 'vitest'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { type Agents, type ConnectHook, openAgents } from '../../../src/target/http/agents.ts'
import { type CallVerdict, type HttpCall, submit } from '../../../src/target/http/submit.ts'
import { answering, closedPort, httpAnswer, rawServer } from '../support/raw-server.ts'

const open: Agents[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((agents) => agents.close()))
})

function agents(options: { connection?: 'reuse' | 'fresh'; connectHook?: ConnectHook } = {}): Agents {
  const opened = openAgents({ connection: 'fresh', connectMs: 2000, ...options })
  open.push(opened)
  return opened
}

function call(origin: string, more: Partial<HttpCall> = {}): HttpCall {
  return {
    origin,
    path: '/jobs',
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"n":1}',
    timeoutMs: 3000,
    headersMs: 3000,
    bodyMs: 3000,
    maxResponseBytes: 4096,
    ...more,
  }
}

describe('submit, by how far the bytes got', () => {
  it('is not sent when the connection is refused', async () => {
    const verdict = await submit(agents().submit, call(`http://127.0.0.1:${await closedPort()}`))
    expect(verdict).toMatchObject({ phase: 'not_sent', permanent: false, gate: null, error: { code: 'ECONNREFUSED' } })
  })

  it('says of each address of a name why it was not dialled', async () => {
    const lookup: net.LookupFunction = (_name, _options, callback) =>
      callback(null, [
        { address: '127.0.0.1', family: 4 },
        { address: '127.0.0.2', family: 4 },
      ])
    const options = { lookup, timeout: 2000 } as buildConnector.BuildOptions
    const port = await closedPort()
    const opened = agents({ connectHook: () => buildConnector(options) })
    const verdict = await submit(opened.submit, call(`http://two-addresses.test:${port}`))
    if (verdict.phase !== 'not_sent') throw new Error(`it is ${verdict.phase}`)
    expect(verdict.error.message).toContain(`127.0.0.1:${port}; `)
    expect(verdict.error.message).toContain(`127.0.0.2:${port}`)
  })

  it('says in one line why the other side is no TLS server', async () => {
    const server = await rawServer(({ socket }) => {
      socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).resume()
    })
    const verdict = await submit(agents().submit, call(server.origin.replace('http:', 'https:')))
    if (verdict.phase !== 'not_sent') throw new Error(`it is ${verdict.phase}`)
    expect(verdict.error.message).toMatch(/^\S.*\S$/)
  })

  it('is not sent, for ever, when the call itself is invalid', async () => {
    const server = await answering(httpAnswer(200, '{}'))
    const verdict = await submit(agents().submit, call(server.origin, { headers: { 'x-a': 'b\r\nx-c: d' } }))
    expect(verdict).toMatchObject({ phase: 'not_sent', permanent: true })
    expect(server.requests).toEqual([])
  })

  it('is not sent, for ever, when a content-length contradicts the body', async () => {
    const server = await answering(httpAnswer(200, '{}'))
    const verdict = await submit(agents().submit, call(server.origin, { headers: { 'content-length': '3' } }))
    expect(verdict).toMatchObject({ phase: 'not_sent', permanent: true })
    expect(server.bytes()).toBe(0)
  })

  it('is answered with status, lower-case headers and body', async () => {
    const server = await answering(httpAnswer(201, '{"id":7}', { 'X-Request-Id': 'r1', 'Set-Cookie': 'a=b' }))
    const verdict = await submit(agents().submit, call(server.origin))
    expect(verdict).toMatchObject({ phase: 'answered', answer: { status: 201, headers: { 'x-request-id': 'r1' } } })
    if (verdict.phase !== 'answered') throw new Error('not answered')
    expect(verdict.answer.body.toString()).toBe('{"id":7}')
    expect(verdict.answer.headers).not.toHaveProperty('set-cookie')
    expect(server.requests[0]).toMatch(/^POST \/jobs HTTP\/1\.1\r\n/)
    expect(server.requests[0]).toMatch(/\r\n\r\n\{"n":1\}$/)
  })

  it.each([
    ['accepts and closes without reading', (socket: { destroy(): void }) => socket.destroy()],
    ['accepts and half-closes', (socket: { end(): void }) => socket.end()],
  ])('is never answered by a server that %s', async (_, end) => {
    const server = await rawServer(({ socket }) => end(socket))
    const verdict = await submit(agents().submit, call(server.origin))
    expect(['unanswered', 'not_sent']).toContain(verdict.phase)
    expect(server.requests).toEqual([])
  })

  it.each(['close', 'reset'] as const)('is unanswered when the server reads all and then does a %s', async (how) => {
    const server = await rawServer((connection) => {
      connection.onRequest(() => (how === 'close' ? connection.socket.end() : connection.reset()))
    })
    const verdict = await submit(agents().submit, call(server.origin))
    expect(verdict.phase).toBe('unanswered')
    expect(server.requests).toHaveLength(1)
  })

  it('is unanswered when only an interim answer came', async () => {
    const server = await rawServer((connection) => {
      connection.onRequest(() => connection.socket.write('HTTP/1.1 102 Processing\r\n\r\n', () => connection.reset()))
    })
    expect((await submit(agents().submit, call(server.origin))).phase).toBe('unanswered')
  })

  it('is unanswered at the deadline when the server never answers, and the socket is gone', async () => {
    const ended = resolvers()
    const server = await rawServer((connection) => {
      connection.onRequest(() => {})
      connection.socket.on('close', () => ended.resolve())
    })
    const verdict = await submit(agents().submit, call(server.origin, { timeoutMs: 80, headersMs: 60_000 }))
    expect(verdict).toMatchObject({ phase: 'unanswered', error: { code: 'DEADLINE' } })
    await ended.promise
    expect(server.requests).toHaveLength(1)
  })

  it('is unanswered at the deadline, however steadily interim answers drip', async () => {
    const server = await rawServer((connection) => {
      connection.onRequest(() => {
        const drip = setInterval(() => connection.socket.write('HTTP/1.1 102 Processing\r\n\r\n'), 10)
        connection.socket.on('close', () => clearInterval(drip))
      })
    })
    const verdict = await submit(agents().submit, call(server.origin, { timeoutMs: 150 }))
    expect(verdict).toMatchObject({ phase: 'unanswered', error: { code: 'DEADLINE' } })
  })

  it.each([
    ['half of the body', 'HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{"id":'],
    ['chunks without an end', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n{"id":\r\n'],
  ])('is cut when the server sends %s', async (_, answer) => {
    const server = await rawServer((connection) => connection.onRequest(() => connection.socket.end(answer)))
    const verdict = await submit(agents().submit, call(server.origin))
    expect(verdict).toMatchObject({ phase: 'cut', answer: { status: 200 } })
    if (verdict.phase === 'cut') expect(verdict.answer.body.toString()).toBe('{"id":')
  })

  it('is cut at the deadline, however steadily the body drips', async () => {
    const server = await rawServer((connection) => {
      connection.onRequest(() => {
        connection.socket.write('HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n')
        const drip = setInterval(() => connection.socket.write('x'), 10)
        connection.socket.on('close', () => clearInterval(drip))
      })
    })
    const verdict = await submit(agents().submit, call(server.origin, { timeoutMs: 150 }))
    expect(verdict).toMatchObject({ phase: 'cut', answer: { status: 200 }, error: { code: 'DEADLINE' } })
  })

  it('takes a body that is shorter than told for cut, also when the dispatcher calls it whole', async () => {
    const verdict = await submit(
      scripted((handler, controller) => {
        handler.onRequestStart?.(controller, {})
        handler.onResponseStart?.(controller, 200, { 'content-length': '10' })
        handler.onResponseData?.(controller, Buffer.from('12345'))
        handler.onResponseEnd?.(controller, {})
      }),
      call('http://127.0.0.1:1'),
    )
    expect(verdict).toMatchObject({ phase: 'cut', error: { code: 'SHORT_BODY' } })
  })
})

describe('submit, keeping a call back', () => {
  it('is not sent when the deadline passes while dialling, and writes nothing when the dial succeeds later', async () => {
    const server = await answering(httpAnswer(200, '{}'))
    const dialled = resolvers()
    const later = resolvers()
    const connectHook: ConnectHook = (connect) => (options, callback) => {
      void later.promise.then(() =>
        connect(options, (...result) => {
          callback(...(result as [null, never]))
          dialled.resolve()
        }),
      )
    }
    const opened = agents({ connectHook })
    const verdict = await submit(opened.submit, call(server.origin, { timeoutMs: 50 }))
    expect(verdict).toMatchObject({ phase: 'not_sent', permanent: false, error: { code: 'DEADLINE' } })
    later.resolve()
    await dialled.promise
    await opened.close()
    expect(server.bytes()).toBe(0)
  })

  it('is not sent when it is aborted before the write', async () => {
    const server = await answering(httpAnswer(200, '{}'))
    const abort = new AbortController()
    const connectHook: ConnectHook = (connect) => (options, callback) => {
      abort.abort()
      connect(options, callback)
    }
    const opened = agents({ connectHook })
    const verdict = await submit(opened.submit, call(server.origin, { signal: abort.signal }))
    expect(verdict).toMatchObject({ phase: 'not_sent', error: { code: 'ABORTED' } })
    await opened.close()
    expect(server.bytes()).toBe(0)
  })

  it('dials nobody when it is aborted before it starts', async () => {
    const server = await answering(httpAnswer(200, '{}'))
    const verdict = await submit(agents().submit, call(server.origin, { signal: AbortSignal.abort() }))
    expect(verdict.phase).toBe('not_sent')
    expect(server.connections()).toBe(0)
  })

  it('is unanswered when it is aborted after the write', async () => {
    const abort = new AbortController()
    const server = await rawServer((connection) => connection.onRequest(() => abort.abort()))
    const verdict = await submit(agents().submit, call(server.origin, { signal: abort.signal }))
    expect(verdict).toMatchObject({ phase: 'unanswered', error: { code: 'ABORTED' } })
  })

  it('is not sent when the gate is closed, and says why', async () => {
    const server = await answering(httpAnswer(200, '{}'))
    const opened = agents()
    let written = 0
    const verdict = await submit(
      opened.submit,
      call(server.origin, { gate: () => 'lease_short', onWritten: () => written++ }),
    )
    expect(verdict).toMatchObject({ phase: 'not_sent', gate: 'lease_short', permanent: false })
    await opened.close()
    expect([server.bytes(), written]).toEqual([0, 0])
  })

  it('is not sent when the gate itself fails', async () => {
    const server = await answering(httpAnswer(200, '{}'))
    const gate = (): null => {
      throw new Error('no lease')
    }
    const verdict = await submit(agents().submit, call(server.origin, { gate }))
    expect(verdict).toMatchObject({ phase: 'not_sent', gate: 'the write gate failed: no lease' })
    expect(server.requests).toEqual([])
  })

  it('asks the gate once, after the dial and right before the write', async () => {
    const seen: string[] = []
    const server = await rawServer((connection) => {
      connection.onRequest(() => {
        seen.push('read')
        connection.socket.end(httpAnswer(200, '{}'))
      })
    })
    const connectHook: ConnectHook = (connect) => (options, callback) => {
      connect(options, (...result) => {
        seen.push('dialled')
        callback(...(result as [null, never]))
      })
    }
    const gate = (): null => {
      seen.push('gate')
      return null
    }
    await submit(agents({ connectHook }).submit, call(server.origin, { gate, onWritten: () => seen.push('written') }))
    expect(seen).toEqual(['dialled', 'gate', 'written', 'read'])
  })

  it('writes nothing once its time is over, though its own timer did not fire yet', async () => {
    const server = await answering(httpAnswer(200, '{}'))
    let now = 0
    const clock: Clock = { ...systemClock, wallNow: () => 0, monotonicNow: () => now }
    const connectHook: ConnectHook = (connect) => (options, callback) => {
      now = 3000
      connect(options, callback)
    }
    const verdict = await submit(agents({ connectHook }).submit, call(server.origin, { clock, timeoutMs: 3000 }))
    expect(verdict).toMatchObject({ phase: 'not_sent', error: { code: 'DEADLINE' } })
    expect(server.requests).toEqual([])
  })
})

describe('submit, one write only', () => {
  it('refuses the second write of a retrying dispatcher', async () => {
    const server = await rawServer((connection) => connection.onRequest(() => connection.reset()))
    const retrying = agents().submit.compose(interceptors.retry({ methods: ['POST'], minTimeout: 1, maxRetries: 2 }))
    const verdict = await submit(retrying, call(server.origin))
    expect(verdict.phase).toBe('unanswered')
    expect(server.requests).toHaveLength(1)
  })

  it('refuses the second write of any dispatcher', async () => {
    const aborted: boolean[] = []
    const verdict = await submit(
      scripted((handler, controller) => {
        for (let i = 0; i < 2; i++) {
          handler.onRequestStart?.(controller, {})
          aborted.push(controller.aborted)
        }
      }),
      call('http://127.0.0.1:1'),
    )
    expect(aborted).toEqual([false, true])
    expect(verdict).toMatchObject({ phase: 'unanswered', error: { code: 'SECOND_WRITE' } })
  })

  it('refuses the second write of a dispatcher that follows redirects', async () => {
    const second = await answering(httpAnswer(200, '{"id":1}'))
    const first = await answering(httpAnswer(307, '', { location: `${second.origin}/jobs` }))
    const following = agents().submit.compose(interceptors.redirect({ maxRedirections: 3 }))
    const verdict = await submit(following, call(first.origin, { headers: { authorization: 'Bearer t0ken' } }))
    expect(verdict.phase).not.toBe('not_sent')
    expect(second.requests).toEqual([])
  })

  it('takes a redirect for an answer: the second server sees neither request nor authorization', async () => {
    const second = await answering(httpAnswer(200, '{"id":1}'))
    const first = await answering(httpAnswer(307, '', { location: `${second.origin}/jobs` }))
    const verdict = await submit(agents().submit, call(first.origin, { headers: { authorization: 'Bearer t0ken' } }))
    expect(verdict).toMatchObject({ phase: 'answered', answer: { status: 307 } })
    expect([first.requests.length, second.connections()]).toEqual([1, 0])
  })

  it.each(['fresh', 'reuse'] as const)(
    'opens a connection for each submit only where it is to be %s',
    async (connection) => {
      const server = await answering(httpAnswer(200, '{}'))
      const { submit: dispatcher } = agents({ connection })
      for (let i = 0; i < 6; i++) await submit(dispatcher, call(server.origin))
      if (connection === 'fresh') expect(server.connections()).toBe(6)
      else expect(server.connections()).toBeLessThan(3)
    },
  )

  it.each(['fresh', 'reuse'] as const)(
    'is never made on a connection that a lookup left idle, where it is to be %s',
    async (connection) => {
      const methodsOf: Set<string>[] = []
      const server = await rawServer((served) => {
        const methods = new Set<string>()
        methodsOf.push(methods)
        served.onRequest(() => {
          methods.add(served.text().split(' ')[0] ?? '')
          served.socket.write(httpAnswer(200, '{}'))
        })
      })
      const opened = agents({ connection })
      for (let i = 0; i < 5; i++) {
        await submit(opened.lookup, call(server.origin, { method: 'GET', body: null }))
        await nextTurn()
        await submit(opened.submit, call(server.origin))
        await nextTurn()
      }
      expect(server.requests).toHaveLength(10)
      expect(methodsOf.filter((methods) => methods.size > 1)).toEqual([])
    },
  )
})

describe('submit, within bounds', () => {
  it('is cut by an answer that tells too large a length', async () => {
    const server = await answering('HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n')
    const verdict = await submit(agents().submit, call(server.origin))
    expect(verdict).toMatchObject({ phase: 'cut', answer: { status: 200 }, error: { code: 'TOO_LARGE' } })
  })

  it('is cut by an answer that grows too large', async () => {
    const chunk = `1000\r\n${'x'.repeat(4096)}\r\n`
    const server = await answering(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunk}${chunk}0\r\n\r\n`)
    const verdict = await submit(agents().submit, call(server.origin))
    expect(verdict).toMatchObject({ phase: 'cut', error: { code: 'TOO_LARGE' } })
    if (verdict.phase === 'cut') expect(verdict.answer.body.length).toBeLessThanOrEqual(4096)
  })

  it('inflates an encoding that nobody asked for', async () => {
    const verdict = await encodedCall(gzipSync('{"id":"t1"}'), 'gzip')
    expect(verdict.phase).toBe('answered')
    if (verdict.phase === 'answered') expect(verdict.answer.body.toString()).toBe('{"id":"t1"}')
  })

  it.each([
    ['a bomb', gzipSync(Buffer.alloc(1 << 20)), 'gzip'],
    ['broken data', Buffer.from('no gzip at all'), 'gzip'],
    ['half of the data', gzipSync('{"id":"t1"}').subarray(0, 12), 'gzip'],
    ['an unknown encoding', Buffer.from('???'), 'constructor'],
  ])('is cut when the encoded body is %s', async (_, body, encoding) => {
    expect(await encodedCall(body, encoding)).toMatchObject({ phase: 'cut', answer: { status: 200 } })
  })

  it('asks for no encoding', async () => {
    const server = await answering(httpAnswer(200, '{}'))
    await submit(agents().submit, call(server.origin))
    expect(server.requests[0]).not.toMatch(/accept-encoding/i)
  })

  async function encodedCall(body: Buffer, encoding: string): Promise<CallVerdict> {
    const head = `HTTP/1.1 200 OK\r\ncontent-encoding: ${encoding}\r\ncontent-length: ${body.length}\r\n\r\n`
    const server = await rawServer((connection) => {
      connection.onRequest(() => connection.socket.end(Buffer.concat([Buffer.from(head), body])))
    })
    return submit(agents().submit, call(server.origin))
  }
})

describe('agents', () => {
  it('let what runs end before they close, and take nothing more', async () => {
    const arrived = resolvers()
    const mayAnswer = resolvers()
    const server = await rawServer((connection) => {
      connection.onRequest(() => {
        arrived.resolve()
        void mayAnswer.promise.then(() => connection.socket.write(httpAnswer(200, '{}')))
      })
    })
    const opened = agents()
    const running = submit(opened.submit, call(server.origin))
    await arrived.promise
    const closing = opened.close()
    const late = await submit(opened.submit, call(server.origin))
    expect(late).toMatchObject({ phase: 'not_sent', permanent: false, error: { code: 'UND_ERR_CLOSED' } })
    mayAnswer.resolve()
    expect((await running).phase).toBe('answered')
    await closing
    expect((await submit(opened.submit, call(server.origin))).phase).toBe('not_sent')
    expect(server.requests).toHaveLength(1)
  })

  it('end what still runs when closing takes too long: in doubt where it was written, not sent where it dials', async () => {
    const arrived = resolvers()
    const dials = resolvers()
    const server = await rawServer((connection) => connection.onRequest(() => arrived.resolve()))
    let dialled = 0
    const connectHook: ConnectHook = (connect) => (options, callback) => {
      if (dialled++ === 0) connect(options, callback)
      else dials.resolve()
    }
    const opened = agents({ connectHook })
    const patient = call(server.origin, { timeoutMs: 20_000, headersMs: 20_000 })
    const running = submit(opened.submit, patient)
    await arrived.promise
    const dialling = submit(opened.submit, patient)
    await dials.promise
    await opened.close()
    expect(await running).toMatchObject({ phase: 'unanswered', error: { code: 'UND_ERR_DESTROYED' } })
    expect(await dialling).toMatchObject({ phase: 'not_sent', error: { code: 'UND_ERR_DESTROYED' } })
    expect(server.requests).toHaveLength(1)
  })
})

function scripted(
  script: (handler: Dispatcher.DispatchHandler, controller: Dispatcher.DispatchController) => void,
): Dispatcher {
  const dispatch = (_: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean => {
    const controller = {
      aborted: false,
      abort(reason: Error) {
        this.aborted = true
        handler.onResponseError?.(this as never, reason)
      },
    }
    script(handler, controller as never)
    return true
  }
  return { dispatch } as unknown as Dispatcher
}

function resolvers(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
