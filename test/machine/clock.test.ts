// Somebody sets the wall clock in mid-run, an hour back or a day forward: nothing lost, nothing twice.
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import type { Onceish } from '../../src/index.ts'
import { composeOnceish } from '../../src/onceish.ts'
import { type Api, configFor, type RawConfig, startApi } from '../support/api.ts'
import { listen } from '../support/listen.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { ALL_DONE, type Batch, DONE, enqueueBatch, fatesOf, HELD } from './support/batch.ts'
import { type HeldAnswers, holdAnswers } from './support/hold-answers.ts'
import { ROOMY } from './support/roomy.ts'

let api: Api
beforeAll(async () => {
  api = await startApi({ settings: { lagMs: 0 } })
})
afterAll(() => api.stop())

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

interface Case {
  readonly once: Onceish
  readonly held: HeldAnswers
  /** The wall clock alone. */
  jump(ms: number): void
}

async function open(overrides: RawConfig): Promise<Case> {
  let offset = 0
  const clock: Clock = { ...systemClock, wallNow: () => Date.now() + offset }
  const held = holdAnswers()
  const config = { ...configFor(api.origin, overrides), store: join(tempDir(), 'jobs.db') }
  const once = await composeOnceish({ config, clock, log: listen().log }, { target: held.seam })
  onTestFinished(() => {
    held.letGo()
    return once.close()
  })
  const jump = (ms: number) => {
    offset += ms
  }
  return { once, held, jump }
}

test.each([
  ['an hour back', -HOUR_MS],
  ['a day forward', DAY_MS],
])('%s while calls are out: their answers settle them, and what comes after is worked as ever', async (_, ms) => {
  const { once, held, jump } = await open(ROOMY)
  const out = await enqueueBatch(once)
  const worker = once.startWorker()
  await waitFor(() => held.arrived() === 4, { what: 'the answers' })
  jump(ms)
  const after = await enqueueBatch(once)
  await waitFor(() => held.arrived() >= 8, { what: 'the calls of what was enqueued after the jump' })
  held.letGo()
  await waitFor(async () => (await once.status()).states.submitted === 8, { what: 'all to be submitted' })
  await worker.stop()
  expect(await fatesOf(api, once, out)).toEqual(ALL_DONE)
  expect(await fatesOf(api, once, after)).toEqual(ALL_DONE)
})

/** A batch whose answers were lost, by a worker that stopped then. */
async function leaveInDoubt({ once, held }: Case): Promise<Batch> {
  const batch = await enqueueBatch(once, 'reset_after')
  const worker = once.startWorker()
  await waitFor(() => held.arrived() === 4, { what: 'four calls' })
  const stopped = worker.stop()
  held.letGo()
  await stopped
  expect((await once.status()).states).toEqual({ unknown: 4 })
  return batch
}

test('a day forward with requests in doubt: keys that may be forgotten by then are not used again', async () => {
  const one = await open(ROOMY)
  const batch = await leaveInDoubt(one)
  one.jump(DAY_MS)
  await one.once.startWorker(DRAIN).done
  // What the lookup finds is adopted; a miss would prove nothing any more.
  expect(await fatesOf(api, one.once, batch)).toEqual({
    executions: HELD,
    renders: HELD,
    parcels: DONE,
    messages: HELD,
  })
})

test('an hour back with requests in doubt: they wait for the clock, others do not, and then they are settled', async () => {
  const one = await open(ROOMY)
  const { once, jump } = one
  const doubtful = await leaveInDoubt(one)
  jump(-HOUR_MS)
  const worker = once.startWorker(DRAIN)
  const plain = await enqueueBatch(once)
  await waitFor(async () => (await once.status()).states.submitted === 4, { what: 'the others' })
  expect(await fatesOf(api, once, plain)).toEqual(ALL_DONE)
  expect((await once.status()).states.unknown).toBe(4)
  jump(HOUR_MS)
  await worker.done
  expect(await fatesOf(api, once, doubtful)).toEqual({
    executions: { ...DONE, calls: 2 },
    renders: { ...DONE, calls: 2 },
    parcels: DONE,
    messages: HELD,
  })
})
