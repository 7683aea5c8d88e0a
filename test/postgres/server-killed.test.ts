// The server is killed, with all of its processes, while workers of other processes have turns and calls under way: nothing happens
// twice, nothing is lost, and they go on by themselves.
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { KINDS } from '../../fixtures/api/ledger.ts'
import { ALL_DONE, callsOf, enqueueBatch, fatesOf } from '../machine/support/batch.ts'
import { type Api, oracleAtRest, startApi } from '../support/api.ts'
import { askStore } from '../support/ask-store.ts'
import { openShop } from '../support/cli.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { openBehind, openFleet } from './support/fleet.ts'

let api: Api
let server: PostgresServer
beforeAll(async () => {
  // A commit that a crash forgets is the server's choice, and not ours.
  ;[api, server] = await Promise.all([startApi(), startPostgres(['-c', 'synchronous_commit=off'])])
})
afterAll(async () => {
  await api.stop()
  await server.stop()
})

const EACH = 40
const KILLS = 3

test('killed and started again under two workers and a producer: no effect twice, nothing acknowledged is lost', async () => {
  const { once, config, location } = await openFleet(api, {
    server: server.url,
    overrides: { worker: { concurrency: 2 } },
  })
  const shop = openShop({ ...config, store: location })
  const numbers = KINDS.flatMap((target) => Array.from({ length: EACH }, (_, n) => ({ target, n: `${target} ${n}` })))
  const acknowledged: number[] = []
  const workers = [shop.start('work'), shop.start('work')]
  // Both are at work before the first kill: one that only starts would end, as it should.
  const slow = Array.from({ length: 8 }, (_, n) => ({
    target: 'renders',
    payload: { n: `slow ${n}`, fault: 'slow:600' },
  }))
  for (const { requestId } of await once.enqueueMany(slow)) acknowledged.push(requestId)
  const owners = new Set<unknown>()
  await waitFor(
    async () => {
      for (const row of await askStore(location, `SELECT lease_owner FROM task_state WHERE state = 'invoking'`))
        owners.add(row['lease_owner'])
      return owners.size === 2
    },
    { what: 'both workers' },
  )
  const producing = (async () => {
    for (const { target, n } of numbers) {
      // As a producer does that was told nothing: it says it again, and it is the same request.
      const { requestId } = await waitFor(() => once.enqueue({ target, payload: { n } }), {
        what: `the enqueue of ${n}`,
      })
      acknowledged.push(requestId)
    }
  })()
  for (let kills = 1; kills <= KILLS; kills++) {
    await waitFor(async () => (await api.oracle()).calls.length >= 10 * kills, { what: `calls before kill ${kills}` })
    await server.kill()
    await waitFor(() => server.start().then(() => true), { what: 'the server' })
  }
  await producing
  const settled = await waitFor(
    async () => {
      const { states } = await once.status()
      const { submitted = 0, held = 0 } = states
      return submitted + held === numbers.length + slow.length && states
    },
    { what: 'all to end', timeoutMs: 60_000 },
  )
  for (const worker of workers) worker.kill('SIGTERM')
  const endings = await Promise.all(workers.map(({ ended }) => ended))

  for (const { code, stderr } of endings) expect({ code, stderr }).toMatchObject({ code: 143 })
  expect(new Set(acknowledged).size).toBe(numbers.length + slow.length)
  const { effects } = await oracleAtRest(api)
  expect(effects.map(({ n }) => n).sort()).toEqual([...new Set(effects.map(({ n }) => n))].sort())
  // A call that was cut off by the lease of a worker without a store is a person's, of a kind that shows nothing.
  const held = await once.list({ state: 'held', limit: 1000 })
  expect(held.map(({ target }) => target).filter((target) => target !== 'messages')).toEqual([])
  expect(settled.submitted ?? 0).toBeGreaterThanOrEqual(3 * EACH)
  for (const { requestId, taskId, state } of await once.list({ limit: 1000 })) {
    const effect = effects.find((one) => one.taskId === taskId)
    if (state === 'submitted') expect(effect, `request ${requestId}`).toBeDefined()
  }
  for (const { stderr } of endings) {
    // Once an outage.
    const told = stderr.split('\n').filter((line) => line.includes('takes no writes'))
    expect(told.length).toBeLessThanOrEqual(KILLS)
    expect(stderr).not.toContain('"level":"fatal"')
  }
  expect(endings.some(({ stderr }) => stderr.includes('takes no writes'))).toBe(true)
})

test('killed right after an enqueue, with synchronous_commit off by default: what was acknowledged is there', async () => {
  const { once } = await openFleet(api, { server: server.url })
  const { requestId } = await once.enqueue({ target: 'renders', payload: { n: 'acknowledged' } })
  await server.kill()
  await server.start()
  expect(await once.get(requestId)).toMatchObject({ state: 'ready' })
})

test('synchronous_commit is set to off while a worker runs: what it calls is on disk before the call', async () => {
  const own = await startPostgres(['-c', 'wal_writer_delay=10s'])
  onTestFinished(() => own.stop())
  const { once, location } = await openFleet(api, { server: own.url, overrides: { worker: { leaseMs: 60_000 } } })
  const worker = once.startWorker()
  worker.done.catch(() => {})
  await once.enqueue({ target: 'messages', payload: { n: 'before' } })
  await waitFor(async () => (await once.status()).states.submitted === 1, { what: 'the first' })
  await own.ask('ALTER SYSTEM SET synchronous_commit = off')
  await own.ask('SELECT pg_reload_conf()')
  await waitFor(async () => (await own.ask('SHOW synchronous_commit'))[0]?.['synchronous_commit'] === 'off', {
    what: 'the setting',
  })
  const { requestId } = await once.enqueue({ target: 'messages', payload: { n: 'after', fault: 'hang_after' } })
  await waitFor(async () => (await api.oracle()).calls.some(({ n }) => n === 'after'), { what: 'the call' })
  await own.kill()
  await own.start()
  expect(await askStore(location, `SELECT state FROM task_state WHERE request_id = ${requestId}`)).toEqual([
    { state: 'invoking' },
  ])
})

test.each(['unheard', 'unanswered'] as const)(
  'killed while it commits a claim, whose number others are given again: %s, each request is called once',
  async (cut) => {
    const { proxy, once, config } = await openFleet(api, {
      server: server.url,
      overrides: { worker: { leaseMs: 60_000 } },
    })
    const batch = await enqueueBatch(once)
    const worker = await openBehind(config)
    const cutting = proxy.cutAtCommit(cut, '"state":"invoking"', { closes: true })
    const running = worker.once.startWorker(DRAIN)
    await waitFor(() => cutting.done, { what: 'the claim' })
    await server.kill()
    await server.start()
    // Transactions that commit under the numbers that come next.
    for (let n = 0; n < 20; n++) await server.ask('CREATE TABLE burnt (); DROP TABLE burnt')
    expect(await callsOf(api, batch)).toBe(0)
    proxy.open()
    await running.done
    expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
    expect(running.counters()).toMatchObject({ leasesLost: 0, callsKeptBack: 0, answersFenced: 0 })
  },
)
