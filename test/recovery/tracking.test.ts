import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { type Onceish, openOnceish } from '../../src/index.ts'
import { type Api, configFor, type RawConfig, startApi } from '../support/api.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'

let api: Api
let once: Onceish
let lastN = 0
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())
beforeEach(() => api.control({ renderState: 'queued' }))

const STATUS = {
  state: '{% $response.body.status %}',
  succeeded: ['done'],
  failed: ['error'],
  pending: ['queued', 'running'],
  everyMs: 30,
}

async function submitOne(overrides: RawConfig = {}): Promise<void> {
  const status = { ...STATUS, url: `${api.origin}/v1/renders/{% $taskId %}` }
  const renders = { status, ...overrides }
  once = await openOnceish({
    config: { ...configFor(api.origin, { targets: { renders } }), store: join(tempDir(), 'jobs.db') },
  })
  await once.enqueue({ target: 'renders', payload: { n: ++lastN } })
  const worker = once.startWorker()
  onTestFinished(async () => {
    await worker.stop()
    await once.close()
  })
  await waitFor(async () => (await once.get(1))?.state === 'submitted', { what: 'the submission' })
}

const state = async () => (await once.get(1))?.state

test.each([
  ['done', 'succeeded'],
  ['error', 'failed'],
])('a task that the API calls %s is %s, after however long it was pending', async (said, end) => {
  await submitOne()
  await api.control({ renderState: 'running' })
  const { updatedAt = 0 } = (await once.get(1)) ?? {}
  await waitFor(async () => ((await once.get(1))?.updatedAt ?? 0) > updatedAt, { what: 'another question' })
  expect(await state()).toBe('submitted')
  await api.control({ renderState: said })
  await waitFor(async () => (await state()) === end, { what: end })
  expect((await api.oracle()).calls.filter((call) => call.n === lastN)).toHaveLength(1)
})

test('a state that nobody named is still open, told once, and the named end is found later', async () => {
  await submitOne()
  await api.control({ renderState: 'granting' })
  await waitFor(async () => (await once.get(1))?.reason === 'unlisted_state', { what: 'the unlisted state' })
  const { version = 0 } = (await once.get(1)) ?? {}
  await waitFor(async () => ((await once.get(1))?.version ?? 0) > version + 2, { what: 'more questions' })
  expect((await once.get(1))?.events.filter((event) => event.kind === 'status_unclear')).toHaveLength(1)
  await api.control({ renderState: 'done' })
  await waitFor(async () => (await state()) === 'succeeded', { what: 'the end' })
})

test('a state that nobody named for as long as the deadline ends the questions, and is no failure', async () => {
  await submitOne({ deadlineMs: 200 })
  await api.control({ renderState: 'granting' })
  await waitFor(async () => (await state()) === 'expired', { what: 'the deadline' })
})

test('a task that the API no longer knows is lost and never submitted again', async () => {
  await submitOne()
  await api.control({ renderState: 'gone' })
  await waitFor(async () => (await state()) === 'lost', { what: 'the loss' })
  expect((await api.oracle()).calls.filter((call) => call.n === lastN)).toHaveLength(1)
})

test('what the status call asks by must outlive the payload', async () => {
  const status = { ...STATUS, url: `${api.origin}/v1/renders/{% $payload.id %}` }
  const config = { ...configFor(api.origin, { targets: { renders: { status } } }), store: join(tempDir(), 'jobs.db') }
  await expect(openOnceish({ config })).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
    message: expect.stringContaining('targets.renders.status.url: $payload is gone'),
  })
})
