// Cases in which a real process is killed at a moment that somebody else's queue did not survive.
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Onceish } from '../../src/index.ts'
import type { CrashPoint } from '../../src/testing.ts'
import type { RawConfig } from '../support/api.ts'
import { deathOf } from '../support/children.ts'
import { openFakeApi } from '../support/counting-api.ts'
import { startCli, workspace } from '../support/run-cli.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN, dryRunOf } from '../support/worker.ts'
import { keyed, listed, openField } from './stage.ts'
import { startTaskApi, tracked } from './task-api.ts'

const DIE_AT = new URL('./die-at.mjs', import.meta.url)

interface Job {
  readonly folder: string
  /** The process that comes after: this one. */
  readonly once: Onceish
  /** A worker of its own, killed at that point. */
  killAt(point: CrashPoint): Promise<void>
}

/** One request, in a store whose leases end soon. */
async function openJob(target: RawConfig): Promise<Job> {
  const submit = { ...(target['submit'] as object), timeoutMs: 1500 }
  const config = { worker: { concurrency: 4, leaseMs: 2000, graceMs: 500 }, targets: { job: { ...target, submit } } }
  const { folder, database } = workspace(config)
  const next = await openField({ ...config, store: database })
  await next.enqueue({ target: 'job', payload: { n: 1 } })
  return {
    folder,
    once: next,
    killAt: async (point) => {
      expect(await deathOf(DIE_AT, { file: join(folder, 'onceish.config.json'), point })).toBe('SIGKILL')
    },
  }
}

test('C04 task id only in worker memory: killed between the answer and its commit, there is one task and its id is stored', async () => {
  const api = await openFakeApi({ kind: 'keyed' })
  const { once, killAt } = await openJob(keyed(api.url))
  await killAt('settle:before-commit')
  expect(api.effects).toHaveLength(1)
  expect(await once.get(1)).toMatchObject({ state: 'invoking', taskId: null })
  await once.recover()
  expect(await once.get(1)).toMatchObject({ state: 'submitted', taskState: { taskId: api.effects[0]?.id } })
  expect(api.effects).toHaveLength(1)
})

test('C04 task id only in worker memory: killed while its task is asked about, it goes on by the stored id and submits nothing', async () => {
  const api = await startTaskApi()
  api.say({ status: 'queued' })
  const { status, ...target } = tracked(api.url)
  const { folder, once: next } = await openJob({ ...target, status: { ...(status as object), everyMs: 50 } })
  const worker = startCli(folder, ['work'])
  await waitFor(() => api.polls() >= 2, { what: 'questions about the task' })
  worker.kill('SIGKILL')
  await once(worker, 'exit')
  api.say({ status: 'succeeded' })
  next.startWorker()
  expect(await next.waitFor(1, { until: 'finished' })).toMatchObject({ state: 'succeeded', taskId: 'task-1' })
  expect(api.submits()).toBe(1)
})

test('C07 rows stuck active after the process ends: killed before the claim commits, the row is still ready', async () => {
  const api = await openFakeApi({ kind: 'keyed' })
  const { once, killAt } = await openJob(keyed(api.url))
  await killAt('claim:before-commit')
  expect(await once.get(1)).toMatchObject({ state: 'ready', attempt: 0 })
  expect(api.calls).toHaveLength(0)
  await once.startWorker(DRAIN).done
  expect(await once.get(1)).toMatchObject({ state: 'submitted', attempt: 1 })
  expect(api.effects).toHaveLength(1)
})

test('C07 rows stuck active after the process ends: killed after the call, the row is shown and looked into, not queued again', async () => {
  const api = await openFakeApi({ kind: 'lookup' })
  const { lookup, ...target } = listed(api.url)
  // Of what it answers nothing is ever complete.
  const blind = { ...(lookup as object), taskId: '{% $response.body.nothing %}', complete: false }
  const { once, killAt } = await openJob({ ...target, lookup: blind })
  await killAt('call:answered')
  expect(await dryRunOf(once)).toMatchObject([{ requestId: 1, state: 'invoking' }])
  const before = Date.now()
  once.startWorker()
  await waitFor(async () => (await once.get(1))?.reason === 'lookup_undetermined', { what: 'a look into the row' })
  const { states, oldestReady, oldestUnknown } = await once.status()
  expect({ states, oldestReady }).toEqual({ states: { unknown: 1 }, oldestReady: null })
  expect(oldestUnknown).toBeGreaterThanOrEqual(before)
  expect(await dryRunOf(once)).toMatchObject([{ requestId: 1, state: 'unknown', would: 'later' }])
  expect(api.calls).toHaveLength(1)
})
