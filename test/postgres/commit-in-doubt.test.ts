// The connection is cut between a commit and its acknowledgement: the server is asked, and nothing is called, settled or told before
// it has answered.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ALL_DONE, callsOf, enqueueBatch, fatesOf } from '../machine/support/batch.ts'
import { type Api, startApi } from '../support/api.ts'
import type { Cut } from '../support/postgres-proxy.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { openBehind, openFleet } from './support/fleet.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

/** As the claim, and the settlement, write them: the plain answers of a turn go with its first statement. */
const CLAIM = '"state":"invoking"'
const SETTLE = '"task_id":"'
const CUTS: readonly Cut[] = ['unheard', 'unanswered']

for (const cut of CUTS) {
  for (const [name, having] of [
    ['claim', CLAIM],
    ['settlement', SETTLE],
  ] as const) {
    test(`the COMMIT of a ${name} is ${cut}: each request is called once, and nobody is told of trouble`, async () => {
      const { proxy, once, config } = await openFleet(api)
      const batch = await enqueueBatch(once)
      const worker = await openBehind(config)
      const cutting = proxy.cutAtCommit(cut, having)
      const running = worker.once.startWorker(DRAIN)
      await running.done
      expect(cutting.done).toBe(true)
      expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
      expect(running.counters()).toMatchObject({ leasesLost: 0, answersFenced: 0 })
      expect(worker.said.of('error')).toEqual([])
    })
  }

  test(`the COMMIT of a claim is ${cut}, and the server is gone while it is asked: told once, called once when it is back`, async () => {
    const { proxy, once, config } = await openFleet(api)
    const batch = await enqueueBatch(once)
    const worker = await openBehind(config)
    const cutting = proxy.cutAtCommit(cut, CLAIM, { closes: true })
    const running = worker.once.startWorker(DRAIN)
    // Longer than the lease: calls that nobody has made are given back, not put in doubt.
    await waitFor(() => running.counters().storeUnreachable >= 4, { what: 'four questions in vain' })
    expect(cutting.done).toBe(true)
    expect(await callsOf(api, batch)).toBe(0)
    proxy.open()
    await running.done
    expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
    expect(worker.said.of('error')).toEqual([expect.stringMatching(/takes no writes.*whether it did is not known/)])
    expect(worker.said.of('warn').filter((line) => line.includes('well'))).toEqual(['the store is well again'])
  })

  test(`the COMMIT of a settlement is ${cut}, and the server is gone while it is asked: the answer is kept and settled once`, async () => {
    const { proxy, once, config } = await openFleet(api, { overrides: { worker: { leaseMs: 60_000 } } })
    const batch = await enqueueBatch(once)
    const worker = await openBehind(config)
    proxy.cutAtCommit(cut, SETTLE, { closes: true })
    const running = worker.once.startWorker(DRAIN)
    await waitFor(() => running.counters().storeUnreachable >= 3, { what: 'three questions in vain' })
    expect(running.counters().answersSpilled).toBeGreaterThanOrEqual(1)
    proxy.open()
    await running.done
    expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
    expect(running.counters()).toMatchObject({ answersFenced: 0 })
  })

  test(`the COMMIT of an enqueue is ${cut}: the caller is told of one new request`, async () => {
    const { proxy, once, config } = await openFleet(api)
    const producer = await openBehind(config)
    const cutting = proxy.cutAtCommit(cut, 'enqueued in doubt')
    const made = await producer.once.enqueue({ target: 'renders', payload: { n: 'enqueued in doubt' } })
    expect(cutting.done).toBe(true)
    expect(made).toMatchObject({ deduplicated: false, state: 'ready' })
    expect((await once.list()).map(({ requestId }) => requestId)).toEqual([made.requestId])
  })
}

test('an enqueue whose COMMIT is unanswered, and nobody can be asked: the caller is told of the doubt, and may say it again', async () => {
  const { proxy, once, config } = await openFleet(api)
  const producer = await openBehind(config)
  proxy.cutAtCommit('unanswered', 'said again', { closes: true })
  const request = { target: 'renders', payload: { n: 'said again' } }
  await expect(producer.once.enqueue(request)).rejects.toMatchObject({
    code: 'STORE_UNREACHABLE',
    details: { inDoubt: true },
    message: expect.stringContaining('may have happened'),
  })
  proxy.open()
  const { requestId } = await producer.once.enqueue(request)
  expect((await once.list()).map((row) => row.requestId)).toEqual([requestId])
})
