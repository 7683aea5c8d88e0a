// Cases in which many processes, or one that does not answer, share a store.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { type VirtualClock, virtualClock } from '../../src/testing.ts'
import { openFakeApi } from '../support/counting-api.ts'
import { ended, workspace } from '../support/run-cli.ts'
import { tempDir } from '../support/temp-dir.ts'
import { DRAIN } from '../support/worker.ts'
import { keyed, opaque, openField } from './stage.ts'

const BURST = fileURLToPath(new URL('./burst.mjs', import.meta.url))

test.each([
  ['for real', true, (_: VirtualClock) => spin(1100), {}],
  [
    'by the clock alone',
    false,
    (clock: VirtualClock) => clock.advance(2000),
    { rule: 'gate', note: 'lease_too_short' },
  ],
])(
  'C08 lease lost because the event loop was blocked %s: nothing leaves from there, another worker makes the one call',
  async (_, isReal, block, evidence) => {
    const api = await openFakeApi({ kind: 'opaque' })
    const clock = virtualClock()
    const store = join(tempDir(), 'jobs.db')
    const job = { ...opaque(api.url), submit: { url: api.url, timeoutMs: 500 } }
    const blocked = await openField({ store, worker: { leaseMs: 1000 }, targets: { job } }, isReal ? undefined : clock)
    await blocked.enqueue({ target: 'job', payload: 1 })
    let blocks = 0
    const worker = blocked.startWorker({
      onProgress: ({ calls }) => {
        // Right after the claim's commit, before the dial can end.
        if (calls === 0 || ++blocks > 1) return
        block(clock)
        // It claims no more afterwards.
        void worker.stop()
      },
    })
    expect(await worker.done).toMatchObject({ calls: 1 })
    expect(api.calls).toHaveLength(0)
    const left = await blocked.get(1)
    expect(left).toMatchObject({
      state: 'scheduled',
      attempts: 0,
      taskState: { evidence: { phase: 'not_sent', ...evidence } },
    })
    const other = await openField({ store, targets: { job: opaque(api.url) } }, isReal ? undefined : clock)
    await clock.runUntil(other.startWorker(DRAIN).done, { stepMs: 20 })
    expect(await other.get(1)).toMatchObject({ state: 'submitted', attempts: 1 })
    expect(api.effects).toHaveLength(1)
  },
)

function spin(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

test('C14 burst of equal enqueues: 8 processes x 200 of one hash, on a file that none has made yet, are one request', async () => {
  const api = await openFakeApi({ kind: 'keyed' })
  const config = { targets: { job: keyed(api.url) } }
  const { folder, database } = workspace(config)
  const told = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const child = spawn(process.execPath, [BURST, join(folder, 'onceish.config.json'), '200'], { stdio: 'pipe' })
      onTestFinished(() => void child.kill('SIGKILL'))
      const { code, stdout, stderr } = await ended(child)
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      return JSON.parse(stdout) as { created: number; duplicate: number }
    }),
  )
  expect(told.reduce((sum, { created }) => sum + created, 0)).toBe(1)
  expect(told.reduce((sum, { duplicate }) => sum + duplicate, 0)).toBe(1599)
  const once = await openField({ ...config, store: database })
  expect((await once.status()).states).toEqual({ ready: 1 })
  await once.startWorker(DRAIN).done
  expect(api.calls).toHaveLength(1)
  // C15's other half: eight migrated it at once, and it was made once.
  const db = new Database(database, { readonly: true })
  onTestFinished(() => void db.close())
  expect(db.prepare('SELECT COUNT(*) FROM store').pluck().get()).toBe(1)
})

test('C15 SQLITE_BUSY in spite of busy_timeout: 4 workers finish 2,000 requests while a fifth process purges, and nobody is told busy', async () => {
  const api = await openFakeApi({ kind: 'keyed' })
  // Times that a busy machine cannot exceed: no call ends in doubt here.
  const job = { ...keyed(api.url), submit: { url: api.url, timeoutMs: 30_000 } }
  const config = { worker: { concurrency: 16 }, targets: { job } }
  const { database, cli } = workspace(config)
  const once = await openField({ ...config, store: database })
  await once.enqueueMany(Array.from({ length: 2000 }, (_, n) => ({ target: 'job', payload: { n } })))
  let working = 4
  const workers = Array.from({ length: working }, async () => {
    const { code, stderr } = await cli(['work', '--drain'])
    working--
    return { code, isBusy: /busy|locked|takes no writes/i.test(stderr) }
  })
  let purged = 0
  let rounds = 0
  for (; working > 0; rounds++) purged += (await once.purge({ olderThanMs: 0 })).purged
  expect(await Promise.all(workers)).toEqual(workers.map(() => ({ code: 0, isBusy: false })))
  purged += (await once.purge({ olderThanMs: 0 })).purged
  expect(rounds).toBeGreaterThan(1)
  expect(purged).toBe(2000)
  expect(api.calls).toHaveLength(2000)
  expect(api.effects).toHaveLength(2000)
})
