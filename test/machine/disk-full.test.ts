// A disk that is really full at each transaction, and has room again: nothing lost, nothing twice, one line.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, type TestContext, test } from 'vitest'
import type { Onceish } from '../../src/index.ts'
import { composeOnceish, type Seams } from '../../src/onceish.ts'
import type { Commit } from '../../src/store/store.ts'
import { type Api, configFor, startApi } from '../support/api.ts'
import { type Listening, listen } from '../support/listen.ts'
import { spillsIn } from '../support/store-files.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { ALL_DONE, callsOf, DONE, enqueueBatch, fatesOf, HELD } from './support/batch.ts'
import { ROOMY } from './support/roomy.ts'
import { mountSmallDisk, type SmallDisk } from './support/small-disk.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

interface Case {
  readonly disk: SmallDisk
  readonly once: Onceish
  readonly said: Listening
  /** The disk is full from right before the next such commit on. */
  fillAt(commit: Commit): void
}

async function open(context: TestContext): Promise<Case> {
  const disk = mountSmallDisk(context, 4)
  const said = listen()
  let at: Commit | null = null
  const probe: Seams['probe'] = (moment, commit) => {
    if (moment !== 'before-commit' || commit !== at) return
    at = null
    disk.fill()
  }
  const config = { ...configFor(api.origin, ROOMY), store: join(disk.folder, 'jobs.db') }
  const once = await composeOnceish({ config, log: said.log }, { probe })
  onTestFinished(() => {
    disk.free()
    return once.close()
  })
  const fillAt = (commit: Commit) => {
    at = commit
  }
  return { disk, once, said, fillAt }
}

test('at the claim: nothing is called, the claim is tried again with backoff and told once', async (context) => {
  const { disk, once, said, fillAt } = await open(context)
  const batch = await enqueueBatch(once)
  fillAt('claim')
  const worker = once.startWorker(DRAIN)
  await waitFor(() => worker.counters().storeFull >= 4, { what: 'four failures' })
  const { turns, storeFull } = worker.counters()
  // Nothing but the claims that fail: no turn between them that would only seem to be well.
  expect(turns - storeFull).toBeLessThanOrEqual(1)
  expect(said.of('error')).toEqual([expect.stringMatching(/takes no writes.*no space left/)])
  expect(said.of('info')).toEqual([])
  expect(await callsOf(api, batch)).toBe(0)
  disk.free()
  await worker.done
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(said.of('error')).toHaveLength(1)
  expect(said.of('warn')).toEqual(['the store is well again'])
})

test('at the settle, with no room for the spill file either: answers are kept in memory, each fault is told once', async (context) => {
  const { disk, once, said, fillAt } = await open(context)
  const batch = await enqueueBatch(once)
  fillAt('settle')
  const worker = once.startWorker(DRAIN)
  await waitFor(() => worker.counters().storeFull >= 4, { what: 'four failures' })
  expect(worker.counters()).toMatchObject({ answersSpilled: 0 })
  expect(spillsIn(disk.folder)).toEqual([])
  expect(said.of('error')).toEqual([
    expect.stringMatching(/takes no writes.*no space left/),
    expect.stringMatching(/^spilling answers.*only in memory.*ENOSPC/),
  ])
  disk.free()
  await worker.done
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(said.of('error')).toHaveLength(2)
})

test('at the sweep: what a lookup found is recorded when there is room, and nothing is called again for it', async (context) => {
  const { disk, once, said, fillAt } = await open(context)
  const batch = await enqueueBatch(once, 'reset_after')
  fillAt('sweep')
  const worker = once.startWorker(DRAIN)
  await waitFor(() => worker.counters().storeFull >= 3, { what: 'three failures' })
  expect(await callsOf(api, batch)).toBe(4)
  disk.free()
  await worker.done
  const fates = await fatesOf(api, once, batch)
  expect(fates).toEqual({
    // One replay each, under the key; the one that the lookup found was not called again.
    executions: { ...DONE, calls: 2 },
    renders: { ...DONE, calls: 2 },
    parcels: DONE,
    messages: HELD,
  })
  expect(said.of('error')).toHaveLength(1)
})

test('at enqueue, resolve and purge: each is refused whole, and done once there is room', async (context) => {
  const { disk, once, fillAt } = await open(context)
  const full = expect.objectContaining({ code: 'STORE_FULL' })
  fillAt('enqueue')
  await expect(once.enqueue({ target: 'messages', payload: { n: 'full', fault: 'reset_after' } })).rejects.toEqual(full)
  expect(await once.list()).toEqual([])
  disk.free()
  const { requestId, deduplicated } = await once.enqueue({
    target: 'messages',
    payload: { n: 'full', fault: 'reset_after' },
  })
  expect(deduplicated).toBe(false)
  await once.startWorker(DRAIN).done
  const held = await once.get(requestId)
  expect(held?.state).toBe('held')
  fillAt('resolve')
  await expect(once.resolve(requestId, { kind: 'task_id', taskId: 'SM1' })).rejects.toEqual(full)
  expect(await once.get(requestId)).toEqual(held)
  disk.free()
  expect(await once.resolve(requestId, { kind: 'task_id', taskId: 'SM1' })).toMatchObject({ kind: 'applied' })
  fillAt('purge')
  await expect(once.purge({ olderThanMs: 0 })).rejects.toEqual(full)
  expect(await once.get(requestId)).toMatchObject({ state: 'submitted', taskId: 'SM1' })
  disk.free()
  await once.purge({ olderThanMs: 0 })
  expect(await once.get(requestId)).toBeNull()
})

test('at a backup: it fails by name and leaves nothing behind; the store goes on', async (context) => {
  const { disk, once } = await open(context)
  const batch = await enqueueBatch(once)
  const target = mountSmallDisk(context, 1)
  target.fill()
  const path = join(target.folder, 'copy.db')
  await expect(once.backup(path)).rejects.toMatchObject({ code: 'STORE_FULL', message: expect.stringContaining(path) })
  expect(readdirSync(target.folder)).toEqual(['ballast'])
  target.free()
  await once.backup(path)
  expect(existsSync(path)).toBe(true)
  await once.startWorker(DRAIN).done
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(spillsIn(disk.folder)).toEqual([])
})
