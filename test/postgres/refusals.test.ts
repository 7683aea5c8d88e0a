// What a server can refuse: at the start a worker ends with a clear error, later it bears the trouble and goes on when it is over.
import { rmSync } from 'node:fs'
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { diagnose, openOnceish } from '../../src/index.ts'
import { ALL_DONE, callsOf, enqueueBatch, fatesOf } from '../machine/support/batch.ts'
import { type Api, configFor, startApi } from '../support/api.ts'
import { openShop } from '../support/cli.ts'
import { copyServer, type PostgresServer, startPostgres, startServer } from '../support/postgres-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { openBehind, openFleet, schemaOf } from './support/fleet.ts'

let api: Api
let server: PostgresServer
const CONNECTIONS = 12
beforeAll(async () => {
  const few = [`max_connections=${CONNECTIONS}`, 'superuser_reserved_connections=1'].flatMap((flag) => ['-c', flag])
  ;[api, server] = await Promise.all([startApi(), startPostgres(few)])
  // Of no superuser, as a careful owner gives it.
  await server.ask(`CREATE ROLE worker LOGIN PASSWORD 'worker'`)
  await server.ask('GRANT CREATE ON DATABASE postgres TO worker')
})
afterAll(async () => {
  await api.stop()
  await server.stop()
})

function asWorker(url: string): string {
  const own = new URL(url)
  own.username = own.password = 'worker'
  return own.toString()
}

const PASSWORD = /:test@|:worker@/

const STARTS: readonly (readonly [what: string, change: (url: URL) => void, code: string, said: RegExp])[] = [
  ['the password is wrong', (url) => (url.password = 'wrong'), 'STORE_UNWRITABLE', /password authentication failed/],
  ['the database is not there', (url) => (url.pathname = '/nowhere'), 'STORE_UNWRITABLE', /"nowhere" does not exist/],
  ['no server is there', (url) => (url.port = '9'), 'STORE_UNREACHABLE', /cannot be reached \(.*ECONNREFUSED/],
  ['nobody knows the host', (url) => (url.hostname = 'nowhere.invalid'), 'STORE_UNREACHABLE', /cannot be reached/],
]

test.each(STARTS)(
  'at the start, where %s: it ends with a clear error and without its password',
  async (_, change, code, said) => {
    const url = new URL(schemaOf(server.url))
    change(url)
    const shop = openShop({ ...configFor(api.origin), store: url.toString() })
    const { code: exit, stderr } = await shop.run('work')
    expect(exit).toBe(1)
    expect(stderr).toMatch(new RegExp(`^error ${code}: `))
    expect(stderr).toMatch(said)
    expect(stderr).not.toMatch(/wrong@|:wrong/)
    expect(stderr).not.toMatch(PASSWORD)
    const examined = await shop.run('doctor')
    expect(examined).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(new RegExp(`^fail {2}server .*${code}: `, 'm')),
    })
    expect(examined.stdout).toMatch(said)
    expect(examined.stdout).not.toMatch(PASSWORD)
  },
)

test('a role that may only make a schema of its own is enough', async () => {
  const { once } = await openFleet(api, { server: asWorker(server.url) })
  const batch = await enqueueBatch(once)
  await once.startWorker(DRAIN).done
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(await once.origin()).toEqual({ kind: 'own' })
  const checks = await diagnose({ config: once.config })
  expect(checks.map(({ name, ok }) => `${name} ${ok}`)).toEqual([
    ...[
      'versions ok',
      'environment ok',
      'server ok',
      'database ok',
      'origin ok',
      'spilled_answers ok',
      'clock ok',
      'unroutable ok',
      'paused ok',
    ],
    ...['held ok', 'leases ok', 'unworked ok', 'code_versions ok', 'closing_windows ok', 'windows ok'],
  ])
})

test('read-only at the start: it ends with a clear error; while it works: told once, and it goes on when that is over', async () => {
  const { once, config, location } = await openFleet(api, { server: server.url })
  const worker = await openBehind(config)
  const running = worker.once.startWorker()
  await waitFor(() => running.counters().turns > 0, { what: 'a turn' })
  const batch = await enqueueBatch(once, 'slow:500')
  await waitFor(async () => (await callsOf(api, batch)) === 4, { what: 'four calls' })
  await readOnly(true)
  onTestFinished(() => readOnly(false))
  await waitFor(() => running.counters().storeFailed >= 3, { what: 'three refusals' })
  const late = await openShop({ ...config, store: location }).run('work')
  expect(late).toMatchObject({ code: 1, stderr: expect.stringMatching(/^error STORE_UNWRITABLE: .* is read-only/m) })
  expect(await once.status()).toMatchObject({ states: {} })
  await readOnly(false)
  await waitFor(async () => (await once.status()).states.submitted === 4, { what: 'four settled' })
  await running.stop()
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(worker.said.of('error')).toEqual([expect.stringMatching(/takes no writes.*is read-only/)])
})

test('a standby: people are shown what it holds, nothing can be asked of it, and a worker of it ends with a clear error', async () => {
  const { once, config, location } = await openFleet(api, { server: server.url })
  const batch = await enqueueBatch(once)
  const copy = await copyServer(server)
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }))
  const standby = await startServer({ copy, as: 'standby' })
  onTestFinished(() => standby.stop())
  const there = new URL(location)
  there.port = String(standby.port)
  const shop = openShop({ ...config, store: there.toString() })
  expect(await shop.json('status')).toMatchObject({ states: { ready: 4 }, origin: 'own' })
  expect(await shop.lines('list')).toHaveLength(4)
  expect((await shop.run('doctor')).stdout).toMatch(/^fail {2}server .*is a standby/m)
  for (const words of [
    ['work'],
    ['enqueue', '--file', shop.write('more.ndjson', '{"target":"renders","payload":{"n":"standby"}}\n')],
    ['pause', 'renders'],
    ['cancel', '1'],
  ]) {
    const { code, stderr } = await shop.run(...words)
    expect({ words, code, stderr }).toEqual({
      words,
      code: 1,
      stderr: expect.stringMatching(/^error STORE_UNWRITABLE: .* is read-only, as a standby is/m),
    })
  }
  expect(await callsOf(api, batch)).toBe(0)
})

test('max_connections is reached: told once, and it goes on when there is room; a command says what to raise', async () => {
  const { once, config, proxy } = await openFleet(api, { server: asWorker(server.url) })
  const worker = await openBehind(config)
  const running = worker.once.startWorker()
  await waitFor(() => running.counters().turns > 0, { what: 'a turn' })
  const others: pg.Client[] = []
  // It has to make new ones, and there are none.
  proxy.close()
  await waitFor(async () => others.push(...(await takeAll())) && isFull(), { what: 'the last connection' })
  proxy.open()
  await waitFor(() => running.counters().storeBusy >= 2, { what: 'two refusals' })
  const { code, stderr } = await openShop(config).run('status')
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: expect.stringMatching(/^error STORE_BUSY: .*takes no more connections.*raise max_connections/),
  })
  await Promise.all(others.map((client) => client.end()))
  const batch = await enqueueBatch(once)
  await waitFor(async () => (await once.status()).states.submitted === 4, { what: 'four settled' })
  await running.stop()
  expect(await fatesOf(api, once, batch)).toEqual(ALL_DONE)
  expect(worker.said.of('error').filter((line) => line.includes('no more connections'))).toHaveLength(1)
})

test('more is asked for at a time than the process has connections: it waits for its turn', async () => {
  const { once } = await openFleet(api, { server: server.url })
  const asked = Array.from({ length: 200 }, (_, n) => once.enqueue({ target: 'renders', payload: { n: `many ${n}` } }))
  const made = await Promise.all(asked)
  expect(new Set(made.map(({ requestId }) => requestId)).size).toBe(200)
})

test('the server comes after the process: a program may open the store again', async () => {
  const { config, proxy } = await openFleet(api, { server: server.url })
  proxy.close()
  await expect(openOnceish({ config })).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
  proxy.open()
  await (await openOnceish({ config })).close()
})

async function isFull(): Promise<boolean> {
  const [row] = await server.ask(
    `SELECT count(*)::int AS used FROM pg_stat_activity WHERE backend_type = 'client backend'`,
  )
  return row?.['used'] === CONNECTIONS
}

/** Every connection that an ordinary role can still have. */
async function takeAll(): Promise<pg.Client[]> {
  const taken: pg.Client[] = []
  for (;;) {
    const client = new pg.Client(asWorker(server.url))
    client.on('error', () => {})
    try {
      await client.connect()
      taken.push(client)
    } catch {
      return taken
    }
  }
}

async function readOnly(on: boolean): Promise<void> {
  await server.ask(`ALTER SYSTEM SET default_transaction_read_only = ${on ? 'on' : 'off'}`)
  await server.ask('SELECT pg_reload_conf()')
}
