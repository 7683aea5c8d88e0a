// A database that somebody else keeps locked for longer than writes wait. (A reader that stays: maintenance/log-bound.test.ts.)
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Onceish } from '../../src/index.ts'
import { composeOnceish } from '../../src/onceish.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { type Api, configFor, startApi } from '../support/api.ts'
import { startScript } from '../support/children.ts'
import { type Listening, listen } from '../support/listen.ts'
import { spillsIn } from '../support/store-files.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { ALL_DONE, callsOf, enqueueBatch, fatesOf } from './support/batch.ts'
import { type HeldAnswers, holdAnswers } from './support/hold-answers.ts'
import { ROOMY } from './support/roomy.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

/** What takes half a minute elsewhere. */
const BUSY_FOR_MS = 150

async function open(): Promise<{ once: Onceish; said: Listening; held: HeldAnswers; folder: string; path: string }> {
  const folder = tempDir()
  const path = join(folder, 'jobs.db')
  const said = listen()
  const held = holdAnswers()
  const once = await composeOnceish(
    { config: { ...configFor(api.origin, ROOMY), store: path }, log: said.log },
    { openStore: (_, options) => openSqliteStore({ path, ...options, busyForMs: BUSY_FOR_MS }), target: held.seam },
  )
  onTestFinished(() => {
    held.letGo()
    return once.close()
  })
  return { once, said, held, folder, path }
}

const lock = (path: string) => startScript(new URL('./locker.ts', import.meta.url), path)

test('locked while calls are out: answers are kept, on disk too, told once, and settled when the lock is gone', async () => {
  const { once, said, held, folder, path } = await open()
  const batch = await enqueueBatch(once)
  const worker = once.startWorker(DRAIN)
  await waitFor(() => held.arrived() === 4, { what: 'the answers' })
  const locker = await lock(path)
  held.letGo()
  await waitFor(() => worker.counters().storeBusy >= 3, { what: 'three failures' })
  const { turns, storeBusy, answersSpilled } = worker.counters()
  expect(turns).toBeLessThanOrEqual(storeBusy + 4)
  expect(answersSpilled).toBe(4)
  expect(said.of('error')).toEqual([expect.stringMatching(/takes no writes.*stays locked by another process/)])
  await locker.kill()
  await worker.done
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(said.of('error')).toHaveLength(1)
  expect(spillsIn(folder)).toEqual([])
})

test('locked while a worker starts and while others enqueue: they are told, the worker waits and nothing is called', async () => {
  const { once, said, held, path } = await open()
  held.letGo()
  const batch = await enqueueBatch(once)
  const locker = await lock(path)
  const busy = expect.objectContaining({ code: 'STORE_BUSY', message: expect.stringContaining('locked by another') })
  await expect(once.enqueue({ target: 'messages', payload: { n: 'locked out' } })).rejects.toEqual(busy)
  const worker = once.startWorker(DRAIN)
  await waitFor(() => worker.counters().storeBusy >= 2, { what: 'two failures' })
  expect(await callsOf(api, batch)).toBe(0)
  expect((await once.status()).states).toEqual({ ready: 4 })
  await locker.kill()
  await worker.done
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(said.of('error')).toHaveLength(1)
})
