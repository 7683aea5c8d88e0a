// Ordering keys under SIGKILL: three workers on one file, one after the other killed in its calls. What order is, the API says:
// of a key, every call of a request arrives before the first of the next.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Api, configFor, oracleAtRest, startApi } from '../support/api.ts'
import { openShop } from '../support/cli.ts'
import { lineFaults } from '../support/line-faults.ts'
import { waitFor } from '../support/wait-for.ts'

const KEYS = ['a', 'b', 'c', 'd', 'e']
const OF_A_KEY = 8
const KILLS = 12
const TARGETS = ['renders', 'parcels'] as const

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

test('of a key no request is called before the one ahead has settled, whoever dies in the call', async () => {
  const shop = openShop(configFor(api.origin, { worker: { concurrency: 8, leaseMs: 1500, graceMs: 1000 } }))
  const rounds = Array.from({ length: OF_A_KEY }, (_, n) => n + 1)
  const lines = rounds.flatMap((n) =>
    TARGETS.flatMap((target) =>
      KEYS.map((orderingKey) => ({ target, orderingKey, payload: { n: `${orderingKey}:${n}`, fault: 'slow:40' } })),
    ),
  )
  shop.write('jobs.ndjson', lines.map((line) => JSON.stringify(line)).join('\n'))
  expect((await shop.run('enqueue', '--file', 'jobs.ndjson')).code).toBe(0)
  const workers = [shop.start('work'), shop.start('work'), shop.start('work')]
  for (let kill = 0; kill < KILLS; kill++) {
    const { length } = (await api.oracle()).calls
    const isFurther = async () => (await api.oracle()).calls.length >= Math.min(length + 4, lines.length)
    await waitFor(isFurther, { what: 'more calls' })
    const victim = workers.shift()
    victim?.kill('SIGKILL')
    await victim?.ended
    workers.push(shop.start('work'))
  }
  for (const worker of workers) worker.kill('SIGTERM')
  await Promise.all(workers.map(({ ended }) => ended))
  expect((await shop.run('work', '--drain')).code).toBe(0)
  const { calls, effects } = await oracleAtRest(api)
  expect(effects).toHaveLength(lines.length)
  for (const target of TARGETS) {
    for (const key of KEYS) {
      const numbers = calls
        .filter(({ kind, n }) => kind === target && String(n).startsWith(`${key}:`))
        .map(({ n }) => Number(String(n).split(':')[1]))
      expect(numbers, `${target} ${key}`).toEqual([...numbers].sort((one, other) => one - other))
      expect(new Set(numbers).size).toBe(OF_A_KEY)
    }
  }
  expect(calls.length).toBeGreaterThan(lines.length)
  expect(await lineFaults(`${shop.folder}/onceish.db`)).toEqual([])
}, 120_000)
