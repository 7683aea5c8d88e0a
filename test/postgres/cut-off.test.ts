// A worker that is cut off from the database while its calls run: it keeps the answers, also beyond its own death, and tells once.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ALL_DONE, callsOf, enqueueBatch, fatesOf } from '../machine/support/batch.ts'
import { type Api, startApi } from '../support/api.ts'
import { openShop } from '../support/cli.ts'
import { spillsIn } from '../support/store-files.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { openBehind, openFleet } from './support/fleet.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

/** Long enough that the answer comes while the lease lasts, and that nobody else looks into it before the test is over. */
const LONG = { worker: { leaseMs: 60_000, graceMs: 60_000 } }

test('cut off while its calls run: their answers are settled when the database is back', async () => {
  const { proxy, once, config } = await openFleet(api, { overrides: LONG })
  const batch = await enqueueBatch(once, 'slow:500')
  const worker = await openBehind(config)
  const running = worker.once.startWorker(DRAIN)
  await waitFor(async () => (await callsOf(api, batch)) === 4, { what: 'four calls' })
  proxy.close()
  await waitFor(() => running.counters().answersSpilled === 4, { what: 'four answers on disk' })
  proxy.open()
  await running.done
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(worker.said.of('error')).toEqual([expect.stringMatching(/takes no writes.*cannot be reached/)])
  expect(running.counters()).toMatchObject({ answersReadBack: 0, leasesLost: 0 })
  expect(spillsIn(stateFolderOf(config))).toEqual([])
})

test('cut off and killed: the answers stand in its state folder, and the next worker there settles them', async () => {
  const { proxy, once, config } = await openFleet(api, { overrides: LONG })
  const { namespace } = await once.facts()
  const batch = await enqueueBatch(once, 'slow:500')
  // As it is by default: beside the config.
  const shop = openShop({ ...config, worker: { ...(config['worker'] as object), stateFolder: undefined } })
  const folder = join(shop.folder, '.onceish')
  const worker = shop.start('work')
  await waitFor(async () => (await callsOf(api, batch)) === 4, { what: 'four calls' })
  proxy.close()
  await waitFor(() => linesIn(folder) === 4, { what: 'four answers on disk' })
  worker.kill('SIGKILL')
  await worker.ended
  expect(spillsIn(folder)).toEqual([expect.stringMatching(new RegExp(`^${namespace}\\.spill-[0-9a-f]+\\.ndjson$`))])
  proxy.open()
  const next = shop.start('work')
  await waitFor(async () => (await once.status()).states.submitted === 4, { what: 'four settled' })
  next.kill('SIGTERM')
  await next.ended
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(spillsIn(folder)).toEqual([])
})

test('cut off and told to stop: it ends within its grace, with its answers on disk, and says so', async () => {
  const { proxy, once, config } = await openFleet(api, { overrides: { worker: { leaseMs: 60_000, graceMs: 800 } } })
  const batch = await enqueueBatch(once, 'slow:500')
  const shop = openShop(config)
  const worker = shop.start('work')
  await waitFor(async () => (await callsOf(api, batch)) === 4, { what: 'four calls' })
  proxy.close()
  await waitFor(() => linesIn(stateFolderOf(config)) === 4, { what: 'four answers on disk' })
  worker.kill('SIGTERM')
  const { code, stderr } = await worker.ended
  expect(code).toBe(1)
  expect(stderr).toMatch(/ending while the store takes no writes/)
  expect(stderr).toMatch(/error STORE_UNREACHABLE: .* cannot be reached/)
})

test('a link that passes nothing on and tells nobody, in mid-claim: what was locked is soon free for another worker', async () => {
  const { proxy, once, config } = await openFleet(api, { overrides: LONG })
  const batch = await enqueueBatch(once)
  const worker = await openBehind(config)
  const silence = proxy.cutAtCommit('silent', '"state":"invoking"')
  const running = worker.once.startWorker()
  await waitFor(() => silence.done, { what: 'a claim that is not committed' })
  await once.startWorker(DRAIN).done
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  await waitFor(() => running.counters().storeUnreachable >= 1, {
    what: 'the silence to be noticed',
    timeoutMs: 40_000,
  })
  proxy.speak()
  await waitFor(() => worker.said.of('warn').includes('the store is well again'), {
    what: 'its return',
    timeoutMs: 40_000,
  })
  await running.stop()
})

function stateFolderOf(config: Readonly<Record<string, unknown>>): string {
  return (config['worker'] as { stateFolder: string }).stateFolder
}

function linesIn(folder: string): number {
  if (!existsSync(folder)) return 0
  return spillsIn(folder).flatMap((name) => readFileSync(join(folder, name), 'utf8').trim().split('\n')).length
}
