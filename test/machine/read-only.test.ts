// A store that may not be written, from the start or from the middle of a run on. Root may write what permissions forbid, so
// the file system itself forbids it.
import { chmodSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, type TestContext, test } from 'vitest'
import { openOnceish } from '../../src/index.ts'
import { composeOnceish } from '../../src/onceish.ts'
import { type Api, configFor, startApi } from '../support/api.ts'
import { listen } from '../support/listen.ts'
import { workspace } from '../support/run-cli.ts'
import { openWorld } from '../support/store.ts'
import { spillsIn } from '../support/store-files.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { ALL_DONE, callsOf, enqueueBatch, fatesOf } from './support/batch.ts'
import { holdAnswers } from './support/hold-answers.ts'
import { ROOMY } from './support/roomy.ts'
import { skipBecause, tryCommand } from './support/skip.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

/** @returns where the folder is seen, and may not be written. */
function readOnlyViewOf(context: TestContext, folder: string): string {
  if (process.getuid?.() !== 0) {
    chmodSync(folder, 0o555)
    onTestFinished(() => chmodSync(folder, 0o755))
    return folder
  }
  const view = join(tempDir(), 'view')
  mkdirSync(view)
  const why = tryCommand('mount', '--bind', folder, view) ?? tryCommand('mount', '-o', 'remount,ro,bind', view)
  if (why !== null) skipBecause(context, why)
  onTestFinished(() => void tryCommand('umount', '-l', view))
  return view
}

/** Not even whoever has the file open may write it. */
function makeImmutable(context: TestContext, ...paths: string[]): () => void {
  const undo = () => void tryCommand('chattr', '-i', ...paths)
  const why = tryCommand('chattr', '+i', ...paths)
  onTestFinished(undo)
  if (why !== null) skipBecause(context, why)
  return undo
}

test('a folder that is read-only from the start: every command refuses by name, nothing is called, nothing is lost', async (context) => {
  const shop = workspace(configFor(api.origin, ROOMY))
  const writable = await openOnceish({ config: { ...configFor(api.origin, ROOMY), store: shop.database } })
  const batch = await enqueueBatch(writable)
  await writable.close()
  const store = join(readOnlyViewOf(context, shop.folder), 'onceish.db')
  for (const args of [
    ['work', '--drain'],
    ['enqueue', '--target', 'renders', '--payload', '{"n":1}'],
  ]) {
    const { code, stderr } = await shop.cli([...args, '--store', store])
    expect(code).toBe(1)
    expect(stderr.trim().split('\n')).toEqual([
      expect.stringMatching(/STORE_UNWRITABLE: cannot open .*onceish\.db for writing/),
    ])
  }
  expect(await callsOf(api, batch)).toBe(0)
  chmodSync(shop.folder, 0o755)
  const again = await openOnceish({ config: { ...configFor(api.origin, ROOMY), store: shop.database } })
  onTestFinished(() => again.close())
  await again.startWorker(DRAIN).done
  expect(await fatesOf(api, again, batch)).toEqual(ALL_DONE)
})

test('a file that is read-only from the start ends a worker at once, with nothing called', async (context) => {
  const path = join(tempDir(), 'jobs.db')
  const config = { ...configFor(api.origin, ROOMY), store: path }
  const once = await openOnceish({ config })
  const batch = await enqueueBatch(once)
  await once.close()
  const undo = makeImmutable(context, path)
  const refused = await openOnceish({ config })
  await expect(refused.startWorker(DRAIN).done).rejects.toMatchObject({ code: 'STORE_UNWRITABLE' })
  await refused.close()
  undo()
  const again = await openOnceish({ config })
  onTestFinished(() => again.close())
  await again.startWorker(DRAIN).done
  expect(await fatesOf(api, again, batch)).toEqual(ALL_DONE)
})

test('a file and folder that become read-only while calls are out: answers are kept, told once, and settled after it', async (context) => {
  const folder = tempDir()
  const path = join(folder, 'jobs.db')
  const said = listen()
  const held = holdAnswers()
  const config = { ...configFor(api.origin, ROOMY), store: path }
  const once = await composeOnceish({ config, log: said.log }, { target: held.seam })
  onTestFinished(() => {
    held.letGo()
    return once.close()
  })
  const batch = await enqueueBatch(once)
  const worker = once.startWorker(DRAIN)
  await waitFor(() => held.arrived() === 4, { what: 'the answers' })
  const undo = makeImmutable(context, path, `${path}-wal`, folder)
  held.letGo()
  await waitFor(() => worker.counters().storeFailed >= 4, { what: 'four failures' })
  const { turns, storeFailed } = worker.counters()
  expect(turns - storeFailed).toBeLessThanOrEqual(4)
  expect(said.of('error')).toEqual([
    expect.stringMatching(/takes no writes.*writing .* failed/),
    expect.stringMatching(/^spilling answers.*only in memory/),
  ])
  undo()
  await worker.done
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(said.of('error')).toHaveLength(2)
  expect(spillsIn(folder)).toEqual([])
})

test('a record of calls that can be read and not written: nothing is claimed, and nothing gets into doubt', async (context) => {
  const world = await openWorld()
  for (const n of [1, 2, 3]) await world.enqueue({ n })
  await world.turn({ slots: 1 })
  const undo = makeImmutable(context, `${world.path}-calls`)
  await expect(world.turn({ slots: 1 })).rejects.toMatchObject({ code: 'STORE_UNWRITABLE' })
  expect((await world.store.status()).states).toEqual({ invoking: 1, ready: 2 })
  undo()
  expect((await world.turn({ slots: 1 })).calls).toHaveLength(1)
  await world.store.close()
})
