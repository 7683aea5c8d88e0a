// One account, many endpoints, many workers: what reaches the API of all of them together.
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { openOnceish } from '../../src/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { openFakeApi } from '../support/counting-api.ts'
import { workspace } from '../support/run-cli.ts'
import { tempDir } from '../support/temp-dir.ts'
import { DRAIN } from '../support/worker.ts'

const WORKERS = 10
const NAMES = ['images', 'videos', 'voices'] as const

function configFor(url: string, rate: object) {
  const target = {
    submit: { url, timeoutMs: 30_000 },
    taskId: '{% $response.body.id %}',
    limits: { bucket: 'account' },
  }
  return {
    buckets: { account: { rate } },
    worker: { concurrency: 8 },
    targets: Object.fromEntries(NAMES.map((name) => [name, target])),
  }
}

const requests = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ target: NAMES[n % NAMES.length] ?? '', payload: { n } }))

/** In any window at most the burst and what the rate gives meanwhile. @param slackMs by how much two clocks may differ. */
function mostBeyond(at: readonly number[], rate: { count: number; burst: number }, slackMs: number): number {
  let most = Number.NEGATIVE_INFINITY
  at.forEach((from, i) => {
    for (let k = i; k < at.length; k++) {
      const allowed = rate.burst + (rate.count * ((at[k] ?? 0) - from + slackMs)) / 1000
      most = Math.max(most, k - i + 1 - allowed)
    }
  })
  return most
}

test('ten processes claim no more than a shared bucket holds, in any window, and all of it goes through', async () => {
  const rate = { count: 100, per: '1s', burst: 5 }
  const api = await openFakeApi({ kind: 'opaque' })
  const config = configFor(api.url, rate)
  const { database, cli } = workspace(config)
  const once = await openOnceish({ config: { ...config, store: database } })
  onTestFinished(() => once.close())
  await once.enqueueMany(requests(400))
  const db = new Database(database)
  onTestFinished(() => void db.close())
  // What is left of a row says when it was settled, not when it was claimed. A call that never left is claimed again, and only then counts.
  db.exec(`CREATE TABLE claims (request_id INTEGER PRIMARY KEY, at INTEGER NOT NULL)`)
  for (const change of ['INSERT', 'UPDATE OF state'])
    db.exec(`CREATE TRIGGER claimed_by_${change[0]} AFTER ${change} ON task_state WHEN NEW.state = 'invoking'
      BEGIN INSERT OR REPLACE INTO claims VALUES (NEW.request_id, NEW.updated_at); END`)
  const workers = await Promise.all(Array.from({ length: WORKERS }, () => cli(['work', '--drain'])))
  expect(workers.map(({ code }) => code)).toEqual(workers.map(() => 0))
  expect(api.effects).toHaveLength(400)
  const claimed = db.prepare('SELECT at FROM claims ORDER BY at').pluck().all() as number[]
  expect(claimed).toHaveLength(400)
  expect(mostBeyond(claimed, rate, 2)).toBeLessThanOrEqual(0)
})

test('and dialling lets no more than a tenth more of them arrive in any second', async () => {
  const rate = { count: 50, per: '1s', burst: 5 }
  const clock = virtualClock()
  const api = await openFakeApi({ kind: 'opaque', clock })
  const config = { ...configFor(api.url, rate), store: join(tempDir(), 'jobs.db') }
  const lives = await Promise.all(Array.from({ length: WORKERS }, () => openOnceish({ config, clock })))
  onTestFinished(async () => {
    for (const life of lives) await life.close()
  })
  await lives[0]?.enqueueMany(requests(200))
  await clock.runUntil(Promise.all(lives.map((life) => life.startWorker(DRAIN).done)), { stepMs: 5 })
  const at = api.effects.map((effect) => effect.at)
  expect(at).toHaveLength(200)
  const inSecond = at.map((from) => at.filter((other) => other >= from && other < from + 1000).length)
  expect(Math.max(...inSecond)).toBeLessThanOrEqual((rate.burst + rate.count) * 1.1)
})
