// A backup taken in mid-run, calls made after it, the file put back: nothing is called twice, for all four kinds.
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { KINDS } from '../../fixtures/api/ledger.ts'
import { type Api, configFor, oracleAtRest, startApi } from '../support/api.ts'
import { type Listed, openShop, type Shop } from '../support/cli.ts'
import { putBack } from '../support/store-files.ts'
import { waitFor } from '../support/wait-for.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

async function enqueue(shop: Shop, wave: string, count: number): Promise<string[]> {
  const rounds = Array.from({ length: count }, (_, i) => i)
  const requests = rounds.flatMap((i) => KINDS.map((target) => ({ target, payload: { n: `${target}-${wave}-${i}` } })))
  shop.write('jobs.ndjson', requests.map((request) => JSON.stringify(request)).join('\n'))
  expect((await shop.run('enqueue', '--file', 'jobs.ndjson')).code).toBe(0)
  return requests.map(({ payload }) => payload.n)
}

async function effectsOf(numbers: readonly string[]) {
  return (await api.oracle()).effects.filter(({ n }) => numbers.includes(String(n)))
}

test('a backup taken in mid-run is put back: what was called since is found, replayed or held, and called by nobody', async () => {
  // Long enough for a held call to be in flight during the backup.
  const executions = { submit: { timeoutMs: 60_000 }, idempotency: { margin: '61s' }, retry: { maxAttempts: 2 } }
  const worker = { concurrency: 1, leaseMs: 61_000, graceMs: 1000 }
  const shop = openShop(configFor(api.origin, { worker, targets: { executions } }))
  const numbers = await enqueue(shop, 'mid', 3)
  await api.control({ holdNext: { kind: 'executions', n: 'executions-mid-0' } })
  const working = shop.start('work')
  await waitFor(async () => (await api.oracle()).held === 1, { what: 'a call in flight' })
  expect((await shop.run('backup', 'mid.db')).code).toBe(0)
  // What follows is slow enough to be killed in the midst of it, some of each kind called and some not.
  await api.control({ latencyMs: 300, release: true })
  await waitFor(async () => (await effectsOf(numbers)).length >= 6, { what: 'calls that the copy does not know' })
  working.kill('SIGKILL')
  await working.ended
  await api.control({ latencyMs: 0 })
  putBack(join(shop.folder, 'mid.db'), join(shop.folder, 'onceish.db'))
  await oracleAtRest(api)

  const before = (await api.oracle()).calls.length
  for (const refused of [
    await shop.run('work', '--drain'),
    await shop.run('recover'),
    await shop.run('recover', '--moved'),
  ]) {
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('onceish recover --restored') })
  }
  expect((await shop.run('doctor')).stdout).toContain('put back from a copy')
  const tried = await shop.json<{ doubted: number }>('recover', '--restored', '--dry-run')
  expect(tried.doubted).toBeGreaterThan(0)
  expect((await api.oracle()).calls).toHaveLength(before)

  const { code, stdout } = await shop.run('recover', '--restored')
  expect(stdout).toContain(`${tried.doubted} requests that may have been called since`)
  expect(code).toBe(3)
  await shop.run('work', '--drain')
  const effects = await effectsOf(numbers)
  expect(effects).toHaveLength(new Set(effects.map(({ n }) => n)).size)
  const listed = await shop.lines<Listed>('list')
  for (const { target, state, taskId, reason } of listed) {
    if (state === 'submitted') expect(effects.map((effect) => effect.taskId)).toContain(taskId)
    else expect({ target, state, reason }).toEqual({ target: 'messages', state: 'held', reason: 'restored' })
  }
  // Of the others every one has happened, whether or not it was called before the copy was put back.
  const others = numbers.filter((n) => !n.startsWith('messages'))
  expect(effects.filter(({ n }) => others.includes(String(n)))).toHaveLength(others.length)
  const messages = (await api.oracle()).calls.filter(({ n }) => String(n).startsWith('messages-mid'))
  expect(messages).toHaveLength(new Set(messages.map(({ n }) => n)).size)
})

test('a copy that stands where no store was calls nothing before the word', async () => {
  const shop = openShop(configFor(api.origin))
  const numbers = await enqueue(shop, 'copied', 1)
  expect((await shop.run('work', '--drain')).code).toBe(0)
  await enqueue(shop, 'copied-later', 1)
  expect((await shop.run('backup', 'elsewhere.db')).code).toBe(0)
  const refused = await shop.run('work', '--drain', '--store', 'elsewhere.db')
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('STORE_RESTORED') })
  expect(await effectsOf(numbers)).toHaveLength(4)
})
