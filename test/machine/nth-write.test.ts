// A store that fails at the n-th of its commits, for every n of a run: before the commit, and as if it had been unknown.
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { OnceishError } from '../../src/core/errors.ts'
import type { WorkerCounters } from '../../src/index.ts'
import { composeOnceish } from '../../src/onceish.ts'
import type { Commit, StoreProbe } from '../../src/store/store.ts'
import { type Api, configFor, type RawConfig, startApi } from '../support/api.ts'
import { listen } from '../support/listen.ts'
import { tempDir } from '../support/temp-dir.ts'
import { DRAIN } from '../support/worker.ts'
import { type Batch, enqueueBatch, type Fates, fatesOf } from './support/batch.ts'
import { ROOMY } from './support/roomy.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

/** So many runs at a time: they wait for backoffs and leases, not for each other. */
const AT_A_TIME = 7
/** So many commits in a row fail. */
const ROW = 2

interface Ended {
  readonly plain: Fates
  readonly doubtful: Fates
  readonly counters: WorkerCounters
  readonly errors: readonly string[]
  readonly hasFailed: boolean
}

type Failing = (nth: number, moment: Parameters<StoreProbe>[0], commit: Commit) => void

/** Four requests that go well and four whose answers are lost, through one worker that must come to its end. */
async function run(path: string, overrides: RawConfig, failing: Failing): Promise<Ended> {
  const said = listen()
  let isArmed = false
  let hasFailed = false
  const passed = { 'before-commit': 0, 'after-commit': 0 }
  const probe: StoreProbe = (moment, commit) => {
    if (!isArmed) return
    const nth = ++passed[moment]
    try {
      failing(nth, moment, commit)
    } catch (error) {
      hasFailed = true
      throw error
    }
  }
  const config = { ...configFor(api.origin, overrides), store: path }
  const once = await composeOnceish({ config, log: said.log }, { probe })
  onTestFinished(() => once.close())
  const batches: Batch[] = [await enqueueBatch(once), await enqueueBatch(once, 'reset_after')]
  isArmed = true
  const worker = once.startWorker(DRAIN)
  await worker.done
  isArmed = false
  const [plain, doubtful] = await Promise.all(batches.map((batch) => fatesOf(api, once, batch)))
  if (plain === undefined || doubtful === undefined) throw new Error('a batch is missing')
  return { plain, doubtful, counters: worker.counters(), errors: said.of('error'), hasFailed }
}

/** @returns each run that came to its n-th commit, for n from 1 until one has fewer. */
async function runEach(overrides: RawConfig, failingAt: (n: number) => Failing): Promise<Ended[]> {
  const folder = tempDir()
  const ended: Ended[] = []
  do {
    const numbers = Array.from({ length: AT_A_TIME }, (_, i) => ended.length + i + 1)
    ended.push(...(await Promise.all(numbers.map((n) => run(join(folder, `${n}.db`), overrides, failingAt(n))))))
  } while (ended.at(-1)?.hasFailed === true)
  return ended.filter(({ hasFailed }) => hasFailed)
}

test('a full disk at the n-th write: every request is called once, is done once, and is known', async () => {
  const tried = await runEach(ROOMY, (n) => (nth, moment) => {
    if (moment !== 'before-commit' || nth < n || nth >= n + ROW) return
    throw new Database.SqliteError('database or disk is full', 'SQLITE_FULL')
  })
  expect(tried.length).toBeGreaterThan(5)
  for (const { plain, doubtful, counters, errors } of tried) {
    for (const fate of Object.values(plain)) {
      expect(fate).toEqual({ state: 'submitted', calls: 1, effects: 1, isTaskKnown: true })
    }
    for (const fate of Object.values(doubtful)) expect(fate.effects).toBe(1)
    expect(doubtful.parcels).toMatchObject({ state: 'submitted', calls: 1, isTaskKnown: true })
    expect(doubtful.messages).toMatchObject({ state: 'held', calls: 1 })
    expect(doubtful.renders).toMatchObject({ state: 'submitted', isTaskKnown: true })
    expect(errors).toHaveLength(1)
    expect(counters.storeFull).toBeGreaterThan(0)
  }
})

test('a commit that stands and is told as failed: nothing is called or done a second time', async () => {
  const tried = await runEach({}, (n) => (nth, moment) => {
    if (moment !== 'after-commit' || nth !== n) return
    throw new OnceishError('STORE_IO_FAILED', 'the commit stands, and nobody was told')
  })
  expect(tried.length).toBeGreaterThan(5)
  for (const { plain, doubtful, errors } of tried) {
    for (const { executions, renders, parcels, messages } of [plain, doubtful]) {
      for (const fate of [executions, renders, parcels]) {
        expect(fate).toMatchObject({ state: 'submitted', effects: 1, isTaskKnown: true })
      }
      expect(parcels.calls).toBe(1)
      // A claim that was lost this way is a call that nobody made: a person decides.
      expect(messages.calls).toBeLessThanOrEqual(1)
      expect(messages.effects).toBe(messages.calls)
      expect(messages.state).toMatch(/^(submitted|held)$/)
    }
    expect(errors).toHaveLength(1)
  }
})
