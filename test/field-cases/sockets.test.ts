// C03: what a broken connection proves depends on how far the bytes got, not on its error code.
import { join } from 'node:path'
import { HttpResponse, http } from 'msw'
import { expect, test } from 'vitest'
import { virtualClock } from '../../src/testing.ts'
import { serveApi } from '../support/serve-api.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { closedPort, httpAnswer, rawServer } from '../target/support/raw-server.ts'
import { opaque, openField } from './stage.ts'

function configFor(url: string, connection?: 'reuse') {
  const submit = { url, timeoutMs: 5000, ...(connection && { connection }) }
  return { store: join(tempDir(), 'jobs.db'), targets: { job: { ...opaque(url), submit } } }
}

test('C03 ECONNRESET on a reused keep-alive socket: after the request was read it is doubt, and nothing is sent again', async () => {
  let resets = 0
  const server = await rawServer((connection) => {
    let served = 0
    connection.onRequest(() => {
      if (++served === 1) return void connection.socket.write(httpAnswer(201, '{"id":"task"}'))
      resets++
      connection.reset()
    })
  })
  const once = await openField(configFor(`${server.origin}/jobs`, 'reuse'))
  await once.enqueueMany([1, 2, 3, 4, 5, 6].map((payload) => ({ target: 'job', payload })))
  await once.startWorker({ ...DRAIN, concurrency: 1 }).done
  expect(resets).toBeGreaterThan(0)
  expect(server.requests).toHaveLength(6)
  expect((await once.status()).states).toEqual({ submitted: 6 - resets, held: resets })
  const [held] = await once.list({ state: 'held' })
  expect((await once.get(held?.requestId ?? 0))?.taskState?.evidence).toMatchObject({
    phase: 'unanswered',
    error: expect.stringMatching(/ECONNRESET|other side closed/),
  })
})

test('C03 ECONNRESET on a reused keep-alive socket: what could not be settled later goes over a socket of its own, unless told', async () => {
  const server = await rawServer((connection) =>
    connection.onRequest(() => connection.socket.write(httpAnswer(201, '{"id":"task"}'))),
  )
  const once = await openField(configFor(`${server.origin}/jobs`))
  await once.enqueueMany([1, 2, 3, 4, 5, 6].map((payload) => ({ target: 'job', payload })))
  await once.startWorker({ ...DRAIN, concurrency: 1 }).done
  expect(server.connections()).toBe(6)
})

test('C03 ECONNRESET on a reused keep-alive socket: a refused connection surely had no effect and is tried until it is taken', async () => {
  const port = await closedPort()
  const clock = virtualClock()
  const once = await openField(configFor(`http://127.0.0.1:${port}/jobs`), clock)
  await once.enqueue({ target: 'job', payload: 1 })
  const worked = clock.runUntil(once.startWorker(DRAIN).done)
  await waitFor(async () => ((await once.get(1))?.taskState?.backoffStep ?? 0) >= 3, { what: 'three refused dials' })
  let effects = 0
  const base = 'https://jobs.sample.test'
  const accept = http.post(`${base}/jobs`, () => HttpResponse.json({ id: `task-${++effects}` }, { status: 201 }))
  await serveApi(base, [accept], port)
  await worked
  const request = await once.get(1)
  expect(request).toMatchObject({ state: 'submitted', taskId: 'task-1', attempts: 1 })
  expect(request?.events.map(({ kind }) => kind)).not.toContain('unknown')
  expect(effects).toBe(1)
})
