// Cases about asking the API what became of a call, a task, or a cancellation.
import { join } from 'node:path'
import { HttpResponse, http } from 'msw'
import { expect, test } from 'vitest'
import { virtualClock } from '../../src/testing.ts'
import { serveApi } from '../support/serve-api.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { DEADLINE_MS, listed, openField, openStage } from './stage.ts'

test('C09 cancel races, ours and theirs: canceled in doubt, purged and restarted, it is never sent again', async () => {
  const { api, clock, crash, open } = await openStage('lookup', (url) => ({
    ...listed(url),
    cancel: { url: `${url}/{% $taskId %}` },
  }))
  await crash({ n: 1 }, 'call:answered')
  const canceling = await open()
  expect(await canceling.cancel(1)).toMatchObject({ kind: 'applied', view: { state: 'invoking' } })
  expect(await canceling.purge({ olderThanMs: 0, abandoned: true })).toMatchObject({ purged: 0 })
  await canceling.close()
  const once = await open()
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(await once.get(1)).toMatchObject({ state: 'canceled', taskId: 'task-1' })
  expect(api.calls).toHaveLength(1)
  expect([...api.canceled]).toEqual(['task-1'])
})

test('C09 cancel races, ours and theirs: canceled before its call had left, it is not called after all', async () => {
  const { api, clock, crash, open } = await openStage('lookup', listed)
  await crash({ n: 1 }, 'claim:after-commit')
  const once = await open()
  await once.cancel(1)
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(await once.get(1)).toMatchObject({ state: 'canceled', taskId: null, reason: 'settled_miss' })
  expect(api.calls).toHaveLength(0)
})

test('C09 cancel races, ours and theirs: a task that its API will not cancel any more is not called canceled', async () => {
  const { api, clock, crash, open } = await openStage('lookup', (url, origin) => ({
    ...listed(url),
    // The API answers 404 there: it has finished meanwhile.
    cancel: { url: `${origin}/finished/{% $taskId %}` },
    deadlineMs: DEADLINE_MS,
  }))
  await crash({ n: 1 }, 'call:answered')
  const once = await open()
  await once.cancel(1)
  await clock.runUntil(once.startWorker(DRAIN).done)
  const request = await once.get(1)
  expect(request).toMatchObject({ state: 'held', reason: 'cancel_failed', taskId: 'task-1' })
  expect(api.calls).toHaveLength(1)
  // A person's word ends it.
  expect(await once.resolve(1, { kind: 'task_id', taskId: 'task-1' })).toMatchObject({ kind: 'applied' })
  expect(await once.get(1)).toMatchObject({ state: 'submitted', taskId: 'task-1' })
})

test('C21 an empty lookup is not proof of absence: a task that shows after 90 s is found, and not made again', async () => {
  const { api, clock, crash, open } = await openStage('lookup', listed, { lagMs: 90_000 })
  await crash({ n: 1 }, 'call:answered')
  const once = await open()
  clock.advance(61_000)
  const recovery = once.startRecovery()
  // It is asked too soon, shows nothing, and that counts for nothing.
  await waitFor(async () => (await once.get(1))?.reason === 'miss_not_settled', { what: 'a lookup that shows nothing' })
  expect((await once.get(1))?.taskState).toMatchObject({ state: 'unknown', misses: 0 })
  await clock.runUntil(recovery.done)
  expect(await once.get(1)).toMatchObject({ state: 'submitted', taskId: 'task-1' })
  expect(api.calls).toHaveLength(1)
})

test('C21 an empty lookup is not proof of absence: a page that misses a node proves nothing, and ends with a person', async () => {
  const base = 'https://jobs.sample.test'
  let submits = 0
  let lookups = 0
  const origin = await serveApi(base, [
    http.post(`${base}/jobs`, () => {
      submits++
      return HttpResponse.error()
    }),
    http.get(`${base}/jobs`, () => {
      lookups++
      return HttpResponse.json({ data: [], node_failures: ['node-2'] })
    }),
  ])
  const url = `${origin}/jobs`
  const lookup = { ...(listed(url)['lookup'] as object), complete: '{% $count($response.body.node_failures) = 0 %}' }
  const clock = virtualClock()
  const config = {
    store: join(tempDir(), 'jobs.db'),
    targets: { job: { ...listed(url), lookup, deadlineMs: DEADLINE_MS } },
  }
  const once = await openField(config, clock)
  await once.enqueue({ target: 'job', payload: { n: 1 } })
  await clock.runUntil(once.startWorker(DRAIN).done)
  expect(await once.get(1)).toMatchObject({ state: 'held', reason: 'deadline', taskState: { misses: 0 } })
  expect(lookups).toBeGreaterThan(2)
  expect(submits).toBe(1)
})

test('C24 compensation of a step whose outcome is unknown: nothing is undone before the step is found, then that step alone', async () => {
  const { api, clock, crash, open } = await openStage(
    'lookup',
    (url) => ({ ...listed(url), cancel: { url: `${url}/{% $taskId %}` } }),
    { lagMs: 90_000 },
  )
  await crash({ n: 1 }, 'call:answered')
  const once = await open()
  await once.cancel(1)
  clock.advance(61_000)
  once.startWorker()
  await waitFor(async () => (await once.get(1))?.reason === 'miss_not_settled', { what: 'a lookup that shows nothing' })
  expect(await once.get(1)).toMatchObject({ state: 'unknown', taskId: null })
  expect(api.canceled.size).toBe(0)
  await clock.runUntil(once.waitFor(1))
  expect(await once.get(1)).toMatchObject({ state: 'canceled', taskId: 'task-1' })
  expect([...api.canceled]).toEqual(['task-1'])
  expect(api.calls).toHaveLength(1)
})
