// Cases about what makes two calls, or two requests, the same one.
import { expect, test } from 'vitest'
import { DRAIN } from '../support/worker.ts'
import { DAY_MS, HOUR_MS, keyed, listed, MINUTE_MS, openStage } from './stage.ts'

test.each([
  ['+23:30', 23.5 * HOUR_MS, 0, { state: 'held', reason: 'key_window_closed', taskId: null }],
  ['+22:00', 22 * HOUR_MS, 1, { state: 'submitted', taskId: 'task-1' }],
])(
  'C05 key forgotten by the API before our retry: remembered for 24 h less an hour, at %s',
  async (_, later, replays, end) => {
    const { api, clock, crash, open } = await openStage('keyed', keyed, { rememberedForMs: DAY_MS })
    await crash({ n: 1 }, 'call:answered')
    clock.advance(later)
    const once = await open()
    await clock.runUntil(once.recover())
    expect(await once.get(1)).toMatchObject(end)
    expect(api.calls).toHaveLength(1 + replays)
    expect(api.effects).toHaveLength(1)
  },
)

test('C05 key forgotten by the API before our retry: past the window it is looked up, where it can be', async () => {
  const { api, clock, crash, open } = await openStage('lookup', (url) => ({
    ...listed(url),
    idempotency: { rememberedFor: '24h', margin: '1h' },
    recovery: ['replay', 'lookup', 'hold'],
  }))
  await crash({ n: 1 }, 'call:answered')
  clock.advance(23.5 * HOUR_MS)
  const once = await open()
  await clock.runUntil(once.recover())
  expect(await once.get(1)).toMatchObject({ state: 'submitted', taskId: 'task-1' })
  expect(api.calls).toHaveLength(1)
})

test('C06 payload changed between tries: a replay sends the bytes of the first call, whatever its template says now', async () => {
  const { api, clock, crash, open } = await openStage('keyed', (url) => ({
    ...keyed(url),
    submit: {
      url: `${url}?at={% $millis() %}`,
      timeoutMs: 5000,
      body: "{% $merge([$payload, { 'at': $now(), 'chance': $random() }]) %}",
    },
  }))
  await crash({ n: 1 }, 'call:answered')
  clock.advance(HOUR_MS)
  const once = await open()
  await clock.runUntil(once.recover())
  expect(api.calls).toHaveLength(2)
  const [first, second] = api.calls.map(({ url, key, body }) => ({ url, key, body }))
  expect(second).toEqual(first)
  expect(await once.get(1)).toMatchObject({ state: 'submitted', taskId: 'task-1' })
})

test('C06 payload changed between tries: the same logical hash with another payload is a conflict and queues nothing', async () => {
  const { open } = await openStage('keyed', keyed)
  const once = await open()
  await once.enqueue({ target: 'job', logicalHash: 'h', payload: 'A' })
  const second = once.enqueue({ target: 'job', logicalHash: 'h', payload: 'B' })
  await expect(second).rejects.toMatchObject({ code: 'LOGICAL_HASH_CONFLICT', details: { requestId: 1 } })
  expect(await once.list()).toMatchObject([{ requestId: 1, state: 'ready' }])
  expect(await once.get(1)).toMatchObject({ payload: 'A' })
})

test('C13 a job loses to its own uniqueness lock: delayed, refused and delayed again it is one row, done once', async () => {
  const { api, clock, open } = await openStage('keyed', (url) => ({
    ...keyed(url),
    outcomes: [{ when: '{% $response.status = 503 %}', is: 'not_executed' }],
  }))
  const once = await open()
  const request = { target: 'job', payload: { n: 1 } }
  await once.enqueue({ ...request, runAt: clock.wallNow() + MINUTE_MS })
  api.failNext({ status: 503, body: '' })
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(api.calls).toHaveLength(2)
  expect(api.effects).toHaveLength(1)
  expect(await once.list()).toMatchObject([{ requestId: 1, state: 'submitted', attempt: 2 }])
  expect((await once.get(1))?.events.map(({ kind }) => kind)).toEqual(['not_executed', 'submitted'])
  expect(await once.enqueue(request)).toMatchObject({ requestId: 1, deduplicated: true })
})
