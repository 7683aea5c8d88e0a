// Purge beside real workers, and purge that is killed.
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { purge } from '../../src/maintenance/purge.ts'
import { openStore } from '../../src/store/open-store.ts'
import { type Api, configFor, startApi } from '../support/api.ts'
import { startScript } from '../support/children.ts'
import { openShop } from '../support/cli.ts'
import { openWorld } from '../support/store.ts'
import { waitFor } from '../support/wait-for.ts'
import { requestsFrom } from './requests.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

test('purging without a pause beside a worker loses nothing, takes no doubt, and stalls nobody', async () => {
  const requests = 400
  const renders = { submit: { timeoutMs: 30_000 }, idempotency: { margin: '31s' }, retry: { maxAttempts: 2 } }
  const messages = { submit: { timeoutMs: 30_000 } }
  const shop = openShop(configFor(api.origin, { worker: { leaseMs: 40_000 }, targets: { renders, messages } }))
  const lines = [
    ...Array.from({ length: requests }, (_, n) => ({ target: 'renders', payload: { n: `purged-${n}` } })),
    ...[0, 1, 2].map((n) => ({ target: 'messages', payload: { n: `doubt-${n}`, fault: 'cut' } })),
  ]
  shop.write('jobs.ndjson', lines.map((line) => JSON.stringify(line)).join('\n'))
  await shop.run('enqueue', '--file', 'jobs.ndjson')
  const worker = shop.start('work', '--drain', '--json')
  const store = await openStore(join(shop.folder, 'onceish.db'), { create: false, now: Date.now() })
  let purged = 0
  let held = 0
  let rounds = 0
  const purgeNow = async () => {
    const given = { store, now: Date.now(), actor: 'test', keepPayloadMs: {} }
    const report = await purge(given, { olderThanMs: 0, abandoned: true })
    purged += report.purged
    rounds++
    return report
  }
  let isOver = false
  const ended = worker.ended.finally(() => {
    isOver = true
  })
  while (!isOver) await purgeNow()
  const { code, stderr } = await ended
  held = (await purgeNow()).kept.inDoubt ?? 0
  expect({ code, held, purged }).toEqual({ code: 3, held: 3, purged: requests })
  expect(stderr).not.toMatch(/STORE_BUSY|takes no writes/)
  expect(rounds).toBeGreaterThan(2)
  expect((await store.status()).states).toEqual({ held: 3 })
  const { effects } = await api.oracle()
  const mine = effects.filter(({ n }) => String(n).startsWith('purged-'))
  expect([mine.length, new Set(mine.map(({ n }) => n)).size]).toEqual([requests, requests])
  await store.close()
  // The same again is a new request with a key of its own, and so a new effect.
  await shop.run('enqueue', '--target', 'renders', '--payload', '{"n":"purged-7"}')
  expect((await shop.run('work', '--drain')).code).toBe(3)
  expect((await api.oracle()).effects.filter(({ n }) => n === 'purged-7')).toHaveLength(2)
}, 120_000)

test('a purge that is killed leaves each request whole or gone with its hash, and the next one ends it', async () => {
  const rows = 3000
  const world = await openWorld()
  await world.store.enqueue(requestsFrom(0, rows), world.clock.now)
  const db = new Database(world.path)
  db.exec(`
    INSERT INTO task_state (request_id, state, target, logical_hash, priority, version, attempt, nonce, generation, attempts,
      created_at, updated_at)
    SELECT request_id, 'dead', target, logical_hash, 0, 1, 1, '', 1, 1, 5, 5 FROM requests;
    INSERT INTO events (request_id, at, kind, actor) SELECT request_id, 5, 'dead', 'test' FROM requests;
    DELETE FROM ready`)
  const count = (from: string) => db.prepare(`SELECT COUNT(*) FROM ${from}`).pluck().get() as number
  const purger = await startScript(new URL('./purger.ts', import.meta.url), world.path)
  await purger.kill()
  const left = count('task_state')
  expect(left).toBeGreaterThan(0)
  expect(left).toBeLessThan(rows)
  expect(count('requests')).toBe(left)
  expect(count('requests JOIN task_state USING (request_id)')).toBe(left)
  expect(count('logical_hashes WHERE request_id IS NOT NULL')).toBe(left)
  expect(count('logical_hashes JOIN task_state USING (request_id)')).toBe(left)
  expect(count('events JOIN task_state USING (request_id)')).toBe(left)
  expect(count('events WHERE request_id IS NOT NULL')).toBe(left)
  expect(count('logical_hashes')).toBe(rows)
  const given = { store: world.store, now: world.clock.now, actor: 'test', keepPayloadMs: {} }
  expect(await purge(given, { olderThanMs: 0 })).toMatchObject({ purged: left })
  expect([count('requests'), count('task_state'), count('logical_hashes')]).toEqual([0, 0, rows])
  await waitFor(async () => (await world.store.status()).states.dead === undefined, { what: 'nothing to be left' })
  db.close()
  await world.store.close()
})
