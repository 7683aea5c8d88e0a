// What a server ends by itself: time-outs, deadlocks, serialization failures. Each is done again whole, or told; never half.

import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { ALL_DONE, callsOf, enqueueBatch, fatesOf } from '../machine/support/batch.ts'
import { type Api, oracleAtRest, startApi } from '../support/api.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { openBehind, openFleet } from './support/fleet.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

/** Whatever is of the store, as one text, to who has locked it. */
async function contents(client: pg.Client, location: string): Promise<string> {
  const schema = new URL(location).searchParams.get('schema')
  const texts: string[] = []
  for (const table of ['requests', 'ready', 'waiting', 'task_state', 'logical_hashes', 'events', 'expiries', 'targets'])
    texts.push(JSON.stringify((await client.query(`SELECT * FROM ${schema}.${table} ORDER BY 1, 2`)).rows))
  return texts.join('\n')
}

test.each(['repeatable read', 'serializable'])(
  'a server whose default isolation is %s: four workers keep a limit, and nothing is called twice',
  async (isolation) => {
    const server = await startPostgres(['-c', `default_transaction_isolation=${isolation}`])
    onTestFinished(() => server.stop())
    const limits = { limits: { concurrency: 2 } }
    const { once, config } = await openFleet(api, { server: server.url, overrides: { targets: { renders: limits } } })
    const workers = await Promise.all([1, 2, 3, 4].map(() => openBehind(config)))
    const numbers = Array.from({ length: 40 }, (_, n) => `${isolation} ${n}`)
    await once.enqueueMany(numbers.map((n) => ({ target: 'renders', payload: { n, fault: 'slow:40' } })))
    let most = 0
    const watching = setInterval(() => {
      void api.oracle().then(({ running }) => (most = Math.max(most, running)))
    }, 5)
    await Promise.all(workers.map((worker) => worker.once.startWorker(DRAIN).done))
    clearInterval(watching)
    const { calls } = await oracleAtRest(api)
    expect(
      calls
        .map(({ n }) => n)
        .filter((n) => numbers.includes(String(n)))
        .sort(),
    ).toEqual(numbers.toSorted())
    expect(most).toBeLessThanOrEqual(2)
    expect(workers.flatMap(({ said }) => said.of('error'))).toEqual([])
  },
)

test('statement_timeout and lock_timeout: refused whole, borne by a worker, and done when nobody is in the way', async () => {
  const server = await startPostgres(['-c', 'statement_timeout=400'])
  onTestFinished(() => server.stop())
  const { once, config, location } = await openFleet(api, {
    server: server.url,
    overrides: { worker: { leaseMs: 60_000 } },
  })
  const batch = await enqueueBatch(once, 'slow:500')
  const worker = await openBehind(config)
  const running = worker.once.startWorker(DRAIN)
  await waitFor(async () => (await callsOf(api, batch)) === 4, { what: 'four calls' })
  const { client, end } = await lockAll(server.url, location)
  const before = await contents(client, location)
  await waitFor(() => running.counters().storeBusy >= 2, { what: 'two refusals' })
  await expect(once.pause('renders')).rejects.toMatchObject({
    code: 'STORE_BUSY',
    message: expect.stringMatching(/statement timeout.*statement_timeout/),
  })
  await server.ask(`ALTER SYSTEM SET lock_timeout = 200`)
  await server.ask('SELECT pg_reload_conf()')
  await waitFor(
    () =>
      once.pause('renders').then(
        () => false,
        (error: Error) => error.message.includes('lock timeout'),
      ),
    { what: 'a lock timeout' },
  )
  expect(await contents(client, location)).toBe(before)
  await end()
  await running.done
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(worker.said.of('error')).toEqual([expect.stringMatching(/takes no writes.*too slow for statement_timeout/)])
})

test('idle_in_transaction_session_timeout ends a turn of a process that stood still: done again whole', async () => {
  const server = await startPostgres(['-c', 'idle_in_transaction_session_timeout=100'])
  onTestFinished(() => server.stop())
  const { once, config } = await openFleet(api, { server: server.url })
  const batch = await enqueueBatch(once)
  let stood = 0
  const worker = await openBehind(config, {
    probe: (moment, commit) => {
      if (moment !== 'before-commit' || commit !== 'claim' || stood++ > 0) return
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400)
    },
  })
  await worker.once.startWorker(DRAIN).done
  expect(stood).toBeGreaterThanOrEqual(2)
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(worker.said.of('error')).toEqual([])
})

test('a deadlock that we lose: done again whole, and the caller is told of nothing', async () => {
  const server = await startPostgres(['-c', 'deadlock_timeout=2s'])
  onTestFinished(() => server.stop())
  const { once, location } = await openFleet(api, { server: server.url })
  const { requestId } = await once.enqueue({ target: 'renders', payload: { n: 'deadlock' } })
  const schema = new URL(location).searchParams.get('schema')
  const other = new pg.Client(server.url)
  await other.connect()
  onTestFinished(() => other.end())
  await other.query(`SET deadlock_timeout = '60s'`)
  // It has what we take last, and wants what we take first.
  await other.query(`BEGIN; LOCK TABLE ${schema}.events IN ACCESS EXCLUSIVE MODE`)
  const canceled = once.cancel(requestId)
  await waitFor(
    async () =>
      (await server.ask(`SELECT 1 FROM pg_locks WHERE NOT granted AND relation = '${schema}.events'::regclass`)).length,
    { what: 'the wait for the events' },
  )
  await other.query(`SELECT 1 FROM ${schema}.requests WHERE request_id = ${requestId} FOR UPDATE`)
  await other.query('COMMIT')
  expect(await canceled).toMatchObject({ kind: 'applied' })
  await waitFor(async () => (await server.ask('SELECT 1 FROM pg_stat_database WHERE deadlocks = 1')).length === 1, {
    what: 'the deadlock to be counted',
  })
  expect((await once.get(requestId))?.state).toBe('canceled')
})

test('every connection of a process is busy for long: told as that, and not as a server that is away', async () => {
  const { once, location } = await openFleet(api)
  const { end } = await lockAll(location.split('?')[0] ?? '', location)
  const asked = await Promise.allSettled(
    [...Array(5).keys()]
      .map((n) => once.enqueue({ target: 'renders', payload: { n: `busy ${n}` } }))
      .map(async (one, n) => {
        if (n === 4) await one.finally(end)
        return one
      }),
  )
  expect(asked.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'fulfilled', 'rejected'])
  expect(asked[4]).toMatchObject({
    reason: { code: 'STORE_BUSY', message: expect.stringMatching(/all 4 connections of this process/) },
  })
})

/** Until `end`, whoever wants to write anything waits. */
async function lockAll(server: string, location: string): Promise<{ client: pg.Client; end(): Promise<void> }> {
  const client = new pg.Client(server)
  client.on('error', () => {})
  await client.connect()
  const schema = new URL(location).searchParams.get('schema')
  await client.query('SET statement_timeout = 0')
  await client.query(`BEGIN; LOCK TABLE ${schema}.store, ${schema}.ready, ${schema}.targets IN ACCESS EXCLUSIVE MODE`)
  return { client, end: () => client.end() }
}
