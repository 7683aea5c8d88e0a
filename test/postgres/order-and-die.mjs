// Places an order and enqueues its bill in one transaction, and kills itself with SIGKILL before or after the commit. Run by
// enqueue-in.test.ts.
import pg from 'pg'
import { z } from 'zod'
import { defineTarget, openOnceish } from '../../dist/index.js'

const [store = '', table = '', order = '', moment] = process.argv.slice(2)
const target = defineTarget({
  name: 'bill',
  version: '1',
  payload: z.object({ order: z.number() }),
  invoke: () => ({ taskId: 'none is made here' }),
})
const once = await openOnceish({ store, targets: [target] })
const client = new pg.Client(store.split('?')[0])
await client.connect()
await client.query('BEGIN')
await client.query(`INSERT INTO ${table} VALUES ($1)`, [Number(order)])
await once.enqueueIn(client, { target: 'bill', payload: { order: Number(order) } })
if (moment === 'after') await client.query('COMMIT')
process.kill(process.pid, 'SIGKILL')
