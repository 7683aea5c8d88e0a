// The counting API of `onceish/testing`: it must be right, or users' tests prove nothing.
import { expect, test } from 'vitest'
import { startFakeApi, virtualClock } from '../../src/testing.ts'
import { openFakeApi } from '../support/counting-api.ts'

async function call(url: string, init: RequestInit = {}): Promise<{ status: number; body: unknown; headers: Headers }> {
  const headers = { connection: 'close', ...(init.headers as Record<string, string>) }
  const response = await fetch(url, { method: 'POST', body: init.method === 'GET' ? null : '{}', ...init, headers })
  return { status: response.status, body: await response.json(), headers: response.headers }
}

test('a key is remembered with its body and its answer, for as long as told', async () => {
  const clock = virtualClock()
  const api = await openFakeApi({ kind: 'keyed', clock, rememberedForMs: 1000 })
  const headers = { 'idempotency-key': 'k1' }
  const first = await call(api.url, { headers })
  expect(first).toMatchObject({ status: 201, body: { id: 'task-1', key: 'k1' } })
  const second = await call(api.url, { headers })
  expect(second.body).toEqual(first.body)
  expect(second.headers.get('idempotent-replayed')).toBe('true')
  expect(await call(api.url, { headers, body: '{"other":1}' })).toMatchObject({ status: 422 })
  expect(await call(api.url)).toMatchObject({ status: 400 })
  clock.advance(1001)
  expect(await call(api.url, { headers })).toMatchObject({ status: 201, body: { id: 'task-2' } })
  expect(api.effects).toHaveLength(2)
  expect(api.calls).toHaveLength(5)
})

test('a client-chosen id exists once', async () => {
  const api = await openFakeApi({ kind: 'client-id' })
  expect(await call(`${api.url}/mine`, { method: 'PUT' })).toMatchObject({ status: 201, body: { id: 'mine' } })
  expect(await call(`${api.url}/mine`, { method: 'PUT' })).toMatchObject({ status: 409, body: { id: 'mine' } })
  expect(await call(`${api.url}/mine`, { method: 'GET' })).toMatchObject({ status: 200, body: { state: 'done' } })
  expect(api.effects).toHaveLength(1)
})

test('a list shows what was made, once its lag is over', async () => {
  const clock = virtualClock()
  const api = await openFakeApi({ kind: 'lookup', clock, lagMs: 500 })
  const body = JSON.stringify({ reference: 'r1' })
  await call(api.url, { body })
  await call(api.url, { body })
  const list = () => call(`${api.url}?reference=r1`, { method: 'GET' })
  expect((await list()).body).toEqual({ data: [], has_more: false })
  clock.advance(500)
  expect((await list()).body).toMatchObject({ data: [{ id: 'task-1' }, { id: 'task-2' }] })
  expect((await call(`${api.url}?reference=r2`, { method: 'GET' })).body).toMatchObject({ data: [] })
})

test('faults are met in order, and "after" means that the effect has happened', async () => {
  const api = await openFakeApi({ kind: 'opaque' })
  api.failNext('reset-before-effect', 'reset-after-effect', 'cut-after-effect', { status: 503, body: {} })
  api.failNext({ status: 500, body: {}, after: 'effect' })
  const effects: number[] = []
  for (let i = 0; i < 3; i++) {
    await expect(call(api.url)).rejects.toThrow()
    effects.push(api.effects.length)
  }
  for (let i = 0; i < 3; i++) effects.push((await call(api.url).then(() => api.effects)).length)
  expect(effects).toEqual([0, 1, 2, 2, 3, 4])
})

test('a cancel is no effect, and shows; what is neither is not found', async () => {
  const api = await openFakeApi({ kind: 'lookup' })
  await call(api.url, { body: '{"reference":"r1"}' })
  expect(await call(`${api.url}/task-1`, { method: 'DELETE' })).toMatchObject({
    status: 200,
    body: { state: 'canceled' },
  })
  expect(await call(`${api.url}/task-9`, { method: 'DELETE' })).toMatchObject({ status: 404 })
  expect(await call(`${api.url}X`)).toMatchObject({ status: 404 })
  expect(api.effects).toHaveLength(1)
  expect([...api.canceled]).toEqual(['task-1'])
})

test('a kind or a fault that is none is refused by its name', async () => {
  const none = expect.objectContaining({ code: 'USAGE' })
  await expect(startFakeApi({ kind: 'idempotent' as never })).rejects.toEqual(none)
  const api = await openFakeApi({ kind: 'opaque' })
  expect(() => api.failNext('boom' as never)).toThrow(none)
})

test('a call that hangs has had its effect, and closing ends it', async () => {
  const api = await startFakeApi({ kind: 'opaque' })
  api.failNext('hang-after-effect')
  const hanging = call(api.url)
  hanging.catch(() => {})
  await expect.poll(() => api.effects.length).toBe(1)
  await api.close()
  await expect(hanging).rejects.toThrow()
})
