// How often a store in trouble is tried: a clock that stands shows that nothing but time leads to the next try.
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { composeOnceish } from '../../src/onceish.ts'
import { virtualClock } from '../../src/testing.ts'
import { configFor } from '../support/api.ts'
import { listen } from '../support/listen.ts'
import { NOWHERE } from '../support/run-cli.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'

test('a store in trouble is tried after 0.1 s, then after twice as long each time, up to 5 s, and told once', async () => {
  const clock = virtualClock()
  const said = listen()
  let asked = 0
  const counted = {
    ...clock,
    monotonicNow: () => {
      asked++
      return clock.monotonicNow()
    },
  }
  let isFull = true
  const probe = (moment: string, commit: string) => {
    if (moment === 'before-commit' && commit === 'claim' && isFull) {
      throw new Database.SqliteError('database or disk is full', 'SQLITE_FULL')
    }
  }
  const config = { ...configFor(NOWHERE), store: join(tempDir(), 'jobs.db') }
  const once = await composeOnceish({ config, clock: counted, log: said.log }, { probe })
  onTestFinished(() => once.close())
  await once.enqueue({ target: 'renders', payload: { n: 1 } })
  const worker = once.startWorker()
  const failures = () => worker.counters().storeFull
  await waitFor(() => failures() === 1, { what: 'the first failure' })
  let failed = 1
  for (const ms of [100, 200, 400, 800, 1600, 3200, 5000, 5000]) {
    clock.advance(ms - 1)
    const before = asked
    await waitFor(() => asked > before + 10, { what: 'the worker to look at the clock again' })
    expect(failures()).toBe(failed)
    clock.advance(1)
    failed++
    await waitFor(() => failures() === failed, { what: `the failure after ${ms} ms` })
  }
  expect(worker.counters().turns).toBe(failed)
  expect(said.of('error')).toHaveLength(1)
  isFull = false
  clock.advance(5000)
  await waitFor(() => said.of('warn').includes('the store is well again'), { what: 'the end of the trouble' })
})
