// Cases in which the answer, or its absence, is misread as a failure or as a success.
import { expect, test } from 'vitest'
import type { FakeAnswer } from '../../src/testing.ts'
import { DRAIN } from '../support/worker.ts'
import { rawServer } from '../target/support/raw-server.ts'
import { keyed, MINUTE_MS, opaque, openStage } from './stage.ts'

test('C01 client timeout shorter than the server: a 409 in reply to our own replay is no failure, and nothing is done twice', async () => {
  const { api, clock, open } = await openStage('keyed', (url) => ({
    ...keyed(url),
    submit: { url, timeoutMs: 1000 },
    idempotency: { header: 'Idempotency-Key', rememberedFor: '24h', margin: '1h', maxReplays: 3 },
  }))
  const duplicate = { status: 409, body: { error: 'duplicate' } }
  api.failNext('hang-after-effect', duplicate, duplicate, duplicate)
  const once = await open()
  await once.enqueue({ target: 'job', payload: { n: 1 } })
  await clock.runUntil(once.startWorker(DRAIN).done)
  const request = await once.get(1)
  expect(request).toMatchObject({ state: 'held', reason: 'replays_spent', taskState: { evidence: { status: 409 } } })
  expect(new Set(request?.events.map(({ to }) => to))).toEqual(new Set(['unknown', 'invoking', 'held']))
  // One call and the replays that the target allows: no layer beneath adds its own.
  expect(api.calls).toHaveLength(4)
  expect(new Set(api.calls.map(({ key, body }) => `${key} ${body}`)).size).toBe(1)
  expect(api.effects).toHaveLength(1)
})

test('C02 HTTP library retries a batch POST: without key and lookup it is sent once, held, and repeated by a person alone', async () => {
  const { api, clock, open } = await openStage('opaque', opaque)
  api.failNext('reset-after-effect')
  const once = await open()
  await once.enqueue({ target: 'job', payload: [{ n: 1 }, { n: 2 }] })
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(await once.get(1)).toMatchObject({ state: 'held', reason: 'opaque', attempts: 1 })
  expect(await once.retry(1)).toMatchObject({ kind: 'refused', why: expect.stringContaining('onceish resolve') })
  clock.advance(MINUTE_MS)
  await clock.runUntil(once.recover())
  expect(api.calls).toHaveLength(1)
  expect(await once.resolve(1, { kind: 'retry_accepting_duplicates' })).toMatchObject({ kind: 'applied' })
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(await once.get(1)).toMatchObject({ state: 'submitted', taskId: 'task-2' })
  expect(api.effects).toHaveLength(2)
})

const INTERNAL_ERROR = { status: 200, body: { ok: false, error: 'internal_error' }, after: 'effect' } as const

test.each<[string, FakeAnswer & { after?: 'effect' }, string]>([
  ['200 with an error that the target calls unknown', INTERNAL_ERROR, 'outcomes[0]'],
  ['200 with nothing in it', { status: 200, body: '', after: 'effect' }, 'success'],
  ['500 with nothing in it', { status: 500, body: '', after: 'effect' }, 'default'],
  ['202 that the target does not list', { status: 202, body: { id: 'task-x' }, after: 'effect' }, 'default'],
])('C20 200 with an error, 5xx with an empty body: %s is neither a success nor a failure', async (_, answer, rule) => {
  const { api, clock, open } = await openStage('opaque', (url) => ({
    ...opaque(url),
    success: [200, 201],
    outcomes: [{ when: "{% $response.body.error = 'internal_error' %}", is: 'unknown' }],
  }))
  api.failNext(answer)
  const once = await open()
  await once.enqueue({ target: 'job', payload: 1 })
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(await once.get(1)).toMatchObject({ state: 'held', taskId: null, taskState: { evidence: { rule } } })
  expect(api.calls).toHaveLength(1)
})

test('C20 200 with an error, 5xx with an empty body: 202 is a success where the target lists it', async () => {
  const { api, clock, open } = await openStage('opaque', (url) => ({ ...opaque(url), success: [202] }))
  api.failNext({ status: 202, body: { id: 'task-x' }, after: 'effect' })
  const once = await open()
  await once.enqueue({ target: 'job', payload: 1 })
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(await once.get(1)).toMatchObject({ state: 'submitted', taskId: 'task-x' })
})

test.each([302, 307])(
  'C22 redirect on the submit call: %i is doubt with its Location shown, and the other server sees nothing',
  async (status) => {
    const elsewhere = await rawServer((connection) => connection.socket.resume())
    const { api, clock, open } = await openStage('opaque', (url) => ({
      ...opaque(url),
      submit: { url, timeoutMs: 5000, headers: { authorization: 'Bearer not-for-others' } },
    }))
    const location = `${elsewhere.origin}/login`
    api.failNext({ status, headers: { location }, body: '', after: 'effect' })
    const once = await open()
    await once.enqueue({ target: 'job', payload: 1 })
    await clock.runUntil(once.startWorker(DRAIN).done)
    expect(await once.get(1)).toMatchObject({
      state: 'held',
      taskState: { evidence: { status, headers: { location } } },
    })
    expect(api.calls).toHaveLength(1)
    expect(elsewhere.connections()).toBe(0)
  },
)

test('C22 redirect on the submit call: 303 to the status of a task is its acceptance where the target says so, and is not followed', async () => {
  const elsewhere = await rawServer((connection) => connection.socket.resume())
  const { api, clock, open } = await openStage('opaque', (url) => ({
    ...opaque(url),
    outcomes: [
      {
        when: '{% $response.status = 303 %}',
        is: 'accepted',
        taskId: "{% $substringAfter($response.headers.location, '/tasks/') %}",
      },
    ],
  }))
  const headers = { location: `${elsewhere.origin}/tasks/task-x` }
  api.failNext({ status: 303, headers, body: '', after: 'effect' })
  const once = await open()
  await once.enqueue({ target: 'job', payload: 1 })
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(await once.get(1)).toMatchObject({ state: 'submitted', taskId: 'task-x' })
  expect(elsewhere.connections()).toBe(0)
})
