// What sessions, databases and callers may be set to, without anybody having asked us.
import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineTarget, openOnceish } from '../../src/index.ts'
import { askStore } from '../support/ask-store.ts'
import { connect } from '../support/connect.ts'
import { newLocation } from '../support/engine.ts'
import { waitFor } from '../support/wait-for.ts'

let called = 0
const target = defineTarget({
  name: 'bill',
  version: '1',
  payload: z.object({ order: z.number().int() }),
  invoke: ({ payload }) => {
    called++
    return { taskId: `task-${payload.order}` }
  },
})

async function open(store: string) {
  const once = await openOnceish({ store, targets: [target] })
  onTestFinished(() => once.close())
  return once
}

const bill = (order: number, more = {}) => ({ target: 'bill' as const, payload: { order }, ...more })

test('bytes and backslashes of another spelling: hashes are known, freed and taken again', async () => {
  const options = '-c bytea_output=escape -c standard_conforming_strings=off'
  const once = await open(`${newLocation()}&options=${encodeURIComponent(options)}`)
  const { requestId } = await once.enqueue(bill(1, { logicalHash: 'given' }))
  await once.enqueue(bill(2))
  expect(await once.enqueue(bill(2))).toMatchObject({ deduplicated: true })
  expect(await once.enqueue(bill(1, { logicalHash: 'given' }))).toMatchObject({ deduplicated: true, requestId })
  await once.cancel(requestId)
  expect(await once.enqueue(bill(1, { logicalHash: 'given' }))).toMatchObject({ deduplicated: false })
})

test('a database that cannot hold every character is refused before anything is in it', async () => {
  const store = newLocation()
  const admin = await connect(store)
  const name = `latin_${process.pid}`
  await admin.query(`CREATE DATABASE ${name} ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'`)
  onTestFinished(() => admin.query(`DROP DATABASE ${name}`).then(() => {}))
  const url = new URL(store)
  url.pathname = `/${name}`
  await expect(open(url.toString())).rejects.toMatchObject({
    code: 'STORE_UNWRITABLE',
    message: expect.stringContaining(
      "is in LATIN1, which cannot hold every character: make a database with ENCODING 'UTF8'",
    ),
  })
})

test('the server’s clock goes back: an idle worker stays idle, and stops when it is told', async () => {
  const store = newLocation()
  const once = await open(store)
  const worker = once.startWorker()
  await once.enqueue(bill(1))
  await waitFor(() => worker.report().settled['submitted'] === 1, { what: 'the first' })
  await askStore(
    store,
    `CREATE OR REPLACE FUNCTION now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
       'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 5000'`,
  )
  await once.enqueue(bill(2))
  await waitFor(() => worker.report().settled['submitted'] === 2, { what: 'the second' })
  const stopped = await worker.stop()
  expect(stopped.settled).toEqual({ submitted: 2 })
  // It turned for what there was to do, and not for as long as it was asked to stop.
  expect(worker.counters().turns).toBeLessThan(50)
})

test('a connection that the server ends in its first moment ends no process', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => {
      const fatal = Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')
      const head = Buffer.alloc(5)
      head.write('E')
      head.writeInt32BE(fatal.length + 4, 1)
      const authenticated = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0])
      socket.end(Buffer.concat([authenticated, Buffer.from([0x5a, 0, 0, 0, 5, 0x49]), head, fatal]))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as { port: number }
  await expect(open(`postgres://postgres@127.0.0.1:${port}/shop`)).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
})

test('the schema is away for a while, and the server fails in a way of its own: a worker bears both, and goes on', async () => {
  const store = newLocation()
  const schema = new URL(store).searchParams.get('schema')
  const once = await open(store)
  const admin = await connect(store)
  const worker = once.startWorker()
  called = 0
  const troubles = () => worker.counters().storeFailed
  await once.enqueue(bill(1))
  await waitFor(() => worker.report().settled['submitted'] === 1, { what: 'the first' })

  await admin.query(`ALTER SCHEMA ${schema} RENAME TO ${schema}_away`)
  await waitFor(() => troubles() > 0, { what: 'the trouble' })
  await admin.query(`ALTER SCHEMA ${schema}_away RENAME TO ${schema}`)
  await once.enqueue(bill(2))
  await waitFor(() => worker.report().settled['submitted'] === 2, { what: 'the second' })

  const before = troubles()
  await admin.query(`SET search_path = ${schema}`)
  await admin.query(
    `CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'boom' USING ERRCODE = '54000'; END $$;
     CREATE TRIGGER fails BEFORE INSERT ON task_state FOR EACH ROW EXECUTE FUNCTION fails()`,
  )
  await once.enqueue(bill(3))
  await waitFor(() => troubles() > before, { what: 'the second trouble' })
  await admin.query('DROP TRIGGER fails ON task_state')
  await waitFor(() => worker.report().settled['submitted'] === 3, { what: 'the third' })
  expect(called).toBe(3)
  await worker.stop()
})
