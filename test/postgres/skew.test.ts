// Machines whose clocks are an hour apart in either direction: leases, due times, limits and deadlines go by the server's.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Api, merge, oracleAtRest, startApi } from '../support/api.ts'
import { askStore } from '../support/ask-store.ts'
import { ended, startCli, workspace } from '../support/run-cli.ts'
import { waitFor } from '../support/wait-for.ts'
import { type Fleet, openFleet } from './support/fleet.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

const HOUR_MS = 3_600_000
/** What two machines, and a busy one, may differ by here. */
const SLACK_MS = 60_000
const SKEW = new URL('./support/skew.mjs', import.meta.url).href

/** A machine of its own name, whose clock is off by so much. */
function machine({ config, location }: Fleet, skewMs: number) {
  const name = skewMs > 0 ? 'ahead' : 'behind'
  const { folder, write } = workspace(merge(config, { store: location, worker: { name, concurrency: 2 } }))
  const env = { NODE_OPTIONS: `--import ${SKEW}`, ONCEISH_TEST_SKEW_MS: String(skewMs) }
  const start = (...args: string[]) => startCli(folder, args, { env })
  return { write, start, run: (...args: string[]) => ended(start(...args)) }
}

const machines = (fleet: Fleet) => [machine(fleet, HOUR_MS), machine(fleet, -HOUR_MS)]

test('leases: nobody takes a call for dead that another still makes', async () => {
  const fleet = await openFleet(api)
  const numbers = Array.from({ length: 16 }, (_, n) => `leased ${n}`)
  await fleet.once.enqueueMany(numbers.map((n) => ({ target: 'messages', payload: { n, fault: 'slow:400' } })))
  const workers = machines(fleet).map(({ start }) => start('work'))
  const endings = workers.map(ended)
  const owners = new Set<unknown>()
  await waitFor(
    async () => {
      const rows = await askStore(fleet.location, `SELECT lease_owner FROM task_state WHERE state = 'invoking'`)
      for (const { lease_owner: owner } of rows) owners.add(String(owner).split(/[/:]/)[0])
      return (await fleet.once.status()).states.submitted === numbers.length
    },
    { what: 'all to be submitted' },
  )
  for (const worker of workers) worker.kill('SIGTERM')
  await Promise.all(endings)
  expect([...owners].sort()).toEqual(['ahead', 'behind'])
  const { calls } = await oracleAtRest(api)
  expect(
    calls
      .map(({ n }) => n)
      .filter((n) => numbers.includes(String(n)))
      .sort(),
  ).toEqual(numbers.toSorted())
})

test('due times: a delay counts from the server’s time, an instant is an instant, and nobody calls before it', async () => {
  const fleet = await openFleet(api)
  const at = new Date(Date.now() + HOUR_MS / 2).toISOString()
  for (const [nth, { write, run }] of machines(fleet).entries()) {
    const lines = [
      { target: 'renders', payload: { n: `delayed ${nth}` }, delay: '30m' },
      { target: 'renders', payload: { n: `at ${nth}` }, runAt: at },
    ]
    const file = write('requests.ndjson', lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
    expect(await run('enqueue', '--file', file)).toMatchObject({ code: 0 })
  }
  const rows = await askStore(fleet.location, 'SELECT due_at FROM requests ORDER BY request_id')
  for (const { due_at: dueAt } of rows) expect(Math.abs(Number(dueAt) - Date.parse(at))).toBeLessThan(SLACK_MS)
  expect(rows.filter(({ due_at: dueAt }) => dueAt === Date.parse(at))).toHaveLength(2)
  for (const { run } of machines(fleet))
    expect(await run('work', '--drain', '--drain-horizon', '1m')).toMatchObject({ code: 0 })
  expect((await fleet.once.status()).states).toEqual({ scheduled: 4 })
})

test('deadlines: what is over in half an hour is over for nobody, and what is over is over for everybody', async () => {
  const fleet = await openFleet(api)
  const inHalf = (sign: 1 | -1) => new Date(Date.now() + (sign * HOUR_MS) / 2).toISOString()
  const [ahead, behind] = machines(fleet)
  const file = (nth: string, expiresAt: string) =>
    ahead?.write(
      `${nth}.ndjson`,
      `${JSON.stringify({ target: 'renders', payload: { n: `deadline ${nth}` }, expiresAt })}\n`,
    ) ?? ''
  expect(await ahead?.run('enqueue', '--file', file('open', inHalf(1)))).toMatchObject({ code: 0 })
  expect((await behind?.run('enqueue', '--file', file('over', inHalf(-1))))?.code).not.toBe(0)
  expect(await ahead?.run('work', '--drain')).toMatchObject({ code: 0 })
  expect((await fleet.once.status()).states).toEqual({ submitted: 1 })
})

test('limits: a rate is one for all, however their clocks stand', async () => {
  const rate = { count: 10, per: '1s', burst: 1 }
  const fleet = await openFleet(api, { overrides: { targets: { renders: { limits: { rate } } } } })
  const numbers = Array.from({ length: 20 }, (_, n) => `rated ${n}`)
  await fleet.once.enqueueMany(numbers.map((n) => ({ target: 'renders', payload: { n } })))
  const endings = await Promise.all(machines(fleet).map(({ run }) => run('work', '--drain')))
  expect(endings.map(({ code }) => code)).toEqual([0, 0])
  const { calls } = await oracleAtRest(api)
  const at = calls.filter(({ n }) => numbers.includes(String(n))).map((call) => call.at)
  expect(at).toHaveLength(numbers.length)
  // The first is the burst, and the others a tenth of a second each; the way to the API may differ by as much.
  expect(Math.max(...at) - Math.min(...at)).toBeGreaterThan(1700)
})
