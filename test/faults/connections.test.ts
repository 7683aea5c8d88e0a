// Calls that share a connection, a dial or a closing process: none waits behind another, none is lost or doubted with
// another, and nothing beneath the protocol sends one again.
import { expect, test } from 'vitest'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { rawServer } from '../target/support/raw-server.ts'
import { failsInTls, goodAnswer, keyIn, refuses } from './fault-servers.ts'
import { opener } from './open-on.ts'

const THREE = [1, 2, 3].map((n) => ({ target: 'jobs', payload: { n } }))

test('calls behind a dial that is refused are all put back, none burned, and each is made once when the port opens', async () => {
  const api = await refuses()
  const once = await opener(api, { kind: 'opaque' })()
  await once.enqueueMany(THREE)
  const worker = once.startWorker(DRAIN)
  const views = await waitFor(
    async () => {
      const all = await once.list()
      return all.every(({ attempt, state }) => attempt > 0 && state !== 'invoking') && all
    },
    { what: 'all three to be put back' },
  )
  await api.heal()
  expect(views.map(({ attempts, reason }) => ({ attempts, reason }))).toEqual(
    THREE.map(() => ({ attempts: 0, reason: 'not_executed' })),
  )
  await worker.done
  expect((await once.status()).states).toEqual({ submitted: 3 })
  expect(api.calls().map(({ read }) => read)).toEqual(['whole', 'whole', 'whole'])
})

test.each(['opaque', 'keyed'] as const)(
  'no call of a target waits for another to end, where it is %s',
  async (kind) => {
    const waiting: (() => void)[] = []
    const server = await rawServer((connection) => {
      connection.onRequest(() => {
        waiting.push(() => connection.socket.write(goodAnswer(connection.text())))
        // Whoever queued behind one of them would wait for ever.
        if (waiting.length === THREE.length) for (const answer of waiting) answer()
      })
    })
    const once = await opener({ url: `${server.origin}/jobs` }, { kind })()
    await once.enqueueMany(THREE)
    await once.startWorker(DRAIN).done
    expect((await once.status()).states).toEqual({ submitted: 3 })
    expect(server.connections()).toBe(3)
  },
)

test('a call that still dials when its worker stops is put back, not in doubt, and made once by the next', async () => {
  const api = await failsInTls(({ socket }) => void socket.resume())
  const open = opener(api, { kind: 'opaque' })
  const first = await open()
  await first.enqueue({ target: 'jobs', payload: {} })
  const worker = first.startWorker()
  await waitFor(() => api.calls().length > 0, { what: 'the dial' })
  await worker.stop()
  const stopped = await first.get(1)
  const evidence = { phase: 'not_sent', error: expect.stringContaining('ABORTED') }
  expect(stopped).toMatchObject({ attempts: 0, reason: 'not_executed', taskState: { evidence } })
  expect(['ready', 'scheduled']).toContain(stopped?.state)
  await api.heal()
  await first.close()
  const second = await open()
  await second.startWorker(DRAIN).done
  expect((await second.status()).states).toEqual({ submitted: 1 })
  expect(api.calls().map(({ read }) => read)).toEqual(['hello', 'whole'])
})

/** Each connection is good for one answer: the next request is read, and then the server goes, as if it had been idle. */
function goingStale() {
  return rawServer((connection) => {
    let requests = 0
    connection.onRequest(() => {
      if (requests++ === 0) connection.socket.write(goodAnswer(connection.text()))
      else connection.socket.end()
    })
  })
}

test('an opaque target dials for each submit, so that no stale connection makes doubt', async () => {
  const server = await goingStale()
  const once = await opener({ url: `${server.origin}/jobs` }, { kind: 'opaque' })()
  await once.enqueueMany(THREE)
  await once.startWorker({ ...DRAIN, concurrency: 1 }).done
  expect((await once.status()).states).toEqual({ submitted: 3 })
  expect(server.connections()).toBe(3)
  expect(server.requests.every((text) => /^connection: close\r$/im.test(text))).toBe(true)
})

test('where an opaque target asks to reuse connections, a stale one makes doubt, which is held and never sent again', async () => {
  const server = await goingStale()
  const once = await opener({ url: `${server.origin}/jobs` }, { kind: 'opaque', submit: { connection: 'reuse' } })()
  await once.enqueueMany(THREE)
  await once.startWorker({ ...DRAIN, concurrency: 1 }).done
  await once.recover()
  expect((await once.status()).states).toEqual({ submitted: 2, held: 1 })
  expect(bodiesOf(server.requests)).toEqual(['{"n":1}', '{"n":2}', '{"n":3}'])
})

test('a keyed target reuses connections, and what a stale one left in doubt is replayed under its key', async () => {
  const server = await goingStale()
  const once = await opener({ url: `${server.origin}/jobs` }, { kind: 'keyed' })()
  await once.enqueueMany(THREE)
  await once.startWorker({ ...DRAIN, concurrency: 1 }).done
  expect((await once.status()).states).toEqual({ submitted: 3 })
  expect(server.requests.length).toBeGreaterThan(THREE.length)
  expect(new Set(server.requests).size).toBe(THREE.length)
  expect(new Set(server.requests.map(keyIn)).size).toBe(THREE.length)
})

test.each(['POST', 'PATCH', 'PUT', 'DELETE', 'GET'])(
  'calls by %s that are reset are not sent again, whatever the method promises',
  async (method) => {
    // The first answer leaves an idle connection: the calls after it would be in line on it, if there were any line.
    const reading: (() => void)[] = []
    const server = await rawServer((connection) => {
      connection.onRequest(() => {
        if (server.requests.length === 1) return void connection.socket.write(goodAnswer(connection.text()))
        reading.push(connection.reset)
        if (reading.length >= THREE.length) for (const reset of reading) reset()
      })
    })
    const submit = { method, url: `${server.origin}/jobs/{% $payload.n %}`, body: 'none', connection: 'reuse' }
    const once = await opener({ url: '' }, { kind: 'opaque', submit })()
    await once.enqueue({ target: 'jobs', payload: { n: 0 } })
    await once.startWorker(DRAIN).done
    await once.enqueueMany(THREE)
    await once.startWorker(DRAIN).done
    await once.recover()
    expect((await once.status()).states).toEqual({ submitted: 1, held: 3 })
    expect(server.requests.map((text) => text.split(' ')[1]).sort()).toEqual([
      '/jobs/0',
      '/jobs/1',
      '/jobs/2',
      '/jobs/3',
    ])
  },
)

test('HTTP/2 is not offered: over it half a body can look whole, and refused streams are sent again', async () => {
  const api = await failsInTls(({ socket }) => void socket.once('data', () => socket.destroy()).resume())
  const once = await opener(api, { kind: 'opaque' })()
  await once.enqueue({ target: 'jobs', payload: {} })
  const worker = once.startWorker()
  const [hello] = await waitFor(() => api.calls().length > 0 && api.calls(), { what: 'the ClientHello' })
  await worker.stop()
  expect(hello?.text).toContain('\u0008http/1.1')
  expect(hello?.text).not.toContain('\u0002h2')
})

function bodiesOf(requests: readonly string[]): string[] {
  return requests.map((text) => text.split('\r\n\r\n')[1] ?? '')
}
