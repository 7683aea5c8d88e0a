// A pooler in transaction mode stands between: names of statements are forgotten, and no notification comes through.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ALL_DONE, enqueueBatch, fatesOf } from '../machine/support/batch.ts'
import { type Api, startApi } from '../support/api.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { openBehind, openFleet } from './support/fleet.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

test('each transaction meets a server connection that knows no names: done again without them, and nobody is told of trouble', async () => {
  const { proxy, once, config } = await openFleet(api, { proxied: { asPooler: true } })
  const worker = await openBehind(config)
  const batches = [await enqueueBatch(worker.once), await enqueueBatch(worker.once)]
  await worker.once.startWorker(DRAIN).done
  expect(proxy.forgotten).toBeGreaterThan(10)
  for (const batch of batches) expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(worker.said.of('error')).toEqual([])
})

test('no notification comes through: an idle worker finds what others enqueue by asking', async () => {
  const { proxy, once, config } = await openFleet(api, { proxied: { asPooler: true } })
  const worker = await openBehind(config)
  const running = worker.once.startWorker()
  await waitFor(() => running.counters().turns > 0, { what: 'a turn' })
  for (let round = 0; round < 2; round++) {
    const batch = await enqueueBatch(once)
    await waitFor(async () => (await once.status()).states.submitted === 4 * (round + 1), { what: 'four submitted' })
    expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  }
  expect(proxy.swallowed).toBeGreaterThan(0)
  await running.stop()
})
