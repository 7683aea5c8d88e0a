// Which rights of a role are enough for what, each with no more than README names; and what is said where they are not.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineTarget, diagnose, openOnceish } from '../../src/index.ts'
import { connect } from '../support/connect.ts'
import { DRAIN } from '../support/worker.ts'

const server = process.env['ONCEISH_TEST_POSTGRES_URL'] ?? ''
const echo = defineTarget({
  name: 'echo',
  version: '1',
  payload: z.object({ n: z.number() }),
  invoke: ({ payload }) => ({ taskId: `t${payload.n}` }),
})

async function ask(...texts: readonly string[]): Promise<void> {
  const client = new pg.Client(server)
  await client.connect()
  try {
    for (const text of texts) await client.query(text)
  } finally {
    await client.end()
  }
}

/** A schema of the test's own, which is not made yet, and roles that may log in and nothing else. */
async function place() {
  const schema = `test_${randomBytes(8).toString('hex')}`
  const roles: string[] = []
  onTestFinished(async () => {
    await ask(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
    for (const role of roles) await ask(`DROP OWNED BY ${role} CASCADE`, `DROP ROLE ${role}`)
  })
  return {
    schema,
    role: async (name: string) => {
      const role = `${name}_${schema}`
      roles.push(role)
      await ask(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`)
      const url = new URL(server)
      ;[url.username, url.password] = [role, 'secret']
      url.searchParams.set('schema', schema)
      return { role, url: url.toString() }
    },
  }
}

async function open(store: string, create = false) {
  const once = await openOnceish({ store, targets: [echo], create })
  onTestFinished(() => once.close())
  return once
}

test('the owner of a schema that an administrator made needs no right to make one', async () => {
  const { schema, role } = await place()
  const owner = await role('owner')
  await ask(`CREATE SCHEMA ${schema} AUTHORIZATION ${owner.role}`)
  const once = await open(owner.url, true)
  await once.enqueue({ target: 'echo', payload: { n: 1 } })
  expect(await once.startWorker(DRAIN).done).toMatchObject({ calls: 1 })
})

test('a role that may make things in a schema is enough as well', async () => {
  const { schema, role } = await place()
  const guest = await role('guest')
  await ask(`CREATE SCHEMA ${schema}`, `GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${guest.role}`)
  await open(guest.url, true)
})

test.each<[what: string, sql: (schema: string, role: string) => string[], said: RegExp]>([
  ['no schema and no right to make one', () => [], /CREATE SCHEMA "test_\w+" AUTHORIZATION our role/],
  [
    'a schema and no right to make tables in it',
    (schema, role) => [`CREATE SCHEMA ${schema}`, `GRANT USAGE ON SCHEMA ${schema} TO ${role}`],
    /GRANT USAGE, CREATE ON SCHEMA "test_\w+" to our role/,
  ],
])('where there is %s, the error names the missing grant', async (_, sql, said) => {
  const { schema, role } = await place()
  const nobody = await role('nobody')
  const texts = sql(schema, nobody.role)
  if (texts.length > 0) await ask(...texts)
  const refused = { code: 'STORE_UNWRITABLE', message: expect.stringMatching(said) }
  await expect(open(nobody.url, true)).rejects.toMatchObject(refused)
})

/** The store as README's statements make it, with roles of the test's own. */
async function made() {
  const { schema, role } = await place()
  const [owner, worker, producer, reader] = [
    await role('owner'),
    await role('worker'),
    await role('producer'),
    await role('reader'),
  ]
  const readme = readFileSync(fileURLToPath(new URL('../../README.md', import.meta.url)), 'utf8')
  const [, block = ''] = /```sql\n(-- Owns.*?)```/s.exec(readme) ?? []
  await ask(
    block
      .replace(/^CREATE ROLE.*$/m, '')
      .replaceAll(/(ROLE|AUTHORIZATION) onceish/g, `$1 ${owner.role}`)
      .replaceAll('SCHEMA onceish', `SCHEMA ${schema}`)
      .replaceAll(/ TO (\w+);/g, ` TO $1_${schema};`),
  )
  return { worker, producer, reader, once: await open(owner.url, true) }
}

test('a role that may read and write enqueues, works, speaks and purges', async () => {
  const { worker } = await made()
  const once = await open(worker.url)
  await once.enqueueMany([1, 2, 3].map((n) => ({ target: 'echo', payload: { n } })))
  await once.enqueue({ target: 'echo', payload: { n: 4 }, orderingKey: 'k', group: 'g', priority: 1 })
  await once.reprioritize(1, 5)
  await once.cancel(2)
  await once.pause('echo')
  await once.resume('echo')
  expect(await once.startWorker(DRAIN).done).toMatchObject({ calls: 3 })
  expect(await once.dismissOrphan(1)).toEqual({ kind: 'not_found' })
  expect(await once.declareRestored({ force: true })).toMatchObject({ doubted: 0 })
  expect(await once.purge({ olderThanMs: 0 })).toMatchObject({ purged: 4 })
})

test('a role that may read sees everything, and changes nothing', async () => {
  const { reader, once: owner } = await made()
  await owner.enqueue({ target: 'echo', payload: { n: 1 } })
  const once = await open(reader.url)
  expect(await once.status()).toMatchObject({ states: { ready: 1 } })
  expect(await once.list()).toHaveLength(1)
  expect(await once.get(1)).toMatchObject({ state: 'ready', payload: { n: 1 } })
  expect(await once.orphans()).toEqual([])
  expect(await once.origin()).toMatchObject({ kind: 'own' })
  const checks = await diagnose({ config: once.config })
  expect(checks.filter(({ ok }) => ok !== 'ok')).toEqual([])
  const refused = { code: 'STORE_UNWRITABLE', message: expect.stringMatching(/permission denied/) }
  await expect(once.cancel(1)).rejects.toMatchObject(refused)
  await expect(once.enqueue({ target: 'echo', payload: { n: 2 } })).rejects.toMatchObject(refused)
})

test('the role of a caller that enqueues in its own transaction deletes nothing', async () => {
  const { producer, once: owner } = await made()
  const once = await open(producer.url)
  const client = await connect(producer.url)
  await client.query('BEGIN')
  const request = { target: 'echo', payload: { n: 1 }, orderingKey: 'k', group: 'g', expiresAt: 9e14 } as const
  expect(await once.enqueueIn(client, request)).toMatchObject({ deduplicated: false })
  expect(await once.enqueueIn(client, { ...request, payload: { n: 2 } })).toMatchObject({ deduplicated: false })
  expect(await once.enqueueIn(client, { ...request, payload: { n: 3 }, delay: 1000 })).toMatchObject({ requestId: 3 })
  expect(await once.enqueueIn(client, request)).toMatchObject({ requestId: 1, deduplicated: true })
  await client.query('COMMIT')
  expect(await once.enqueue({ target: 'echo', payload: { n: 4 } })).toMatchObject({ deduplicated: false })
  expect(await owner.list()).toHaveLength(4)
})

test('a role that may have no more connections is told which limit it is', async () => {
  const { schema, role } = await place()
  const owner = await role('owner')
  await ask(`CREATE SCHEMA ${schema} AUTHORIZATION ${owner.role}`, `ALTER ROLE ${owner.role} CONNECTION LIMIT 0`)
  const refused = {
    code: 'STORE_BUSY',
    message: expect.stringMatching(/too many connections for role.*CONNECTION LIMIT/),
  }
  await expect(open(owner.url, true)).rejects.toMatchObject(refused)
})

test('the server shows whose sessions they are', async () => {
  const { schema, role } = await place()
  const owner = await role('owner')
  await ask(`CREATE SCHEMA ${schema} AUTHORIZATION ${owner.role}`)
  const once = await openOnceish({ store: owner.url, targets: [echo], worker: { name: 'host-a' } })
  onTestFinished(() => once.close())
  const client = await connect(server)
  const text = 'SELECT DISTINCT application_name AS name FROM pg_stat_activity WHERE usename = $1'
  expect((await client.query(text, [owner.role])).rows).toEqual([{ name: `onceish host-a ${process.pid}` }])
})
