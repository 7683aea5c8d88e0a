// Places an order and enqueues its bill in one transaction, and kills itself with SIGKILL before or after the commit. Run by
// enqueue-in.test.ts.
import Database from 'better-sqlite3'
import { z } from 'zod'
import { defineTarget, openOnceish } from '../../dist/index.js'

const [path = '', order = '', moment] = process.argv.slice(2)
const target = defineTarget({
  name: 'bill',
  version: '1',
  payload: z.object({ order: z.number() }),
  invoke: () => ({ taskId: 'none is made here' }),
})
const once = await openOnceish({ store: path, targets: [target] })
const db = new Database(path)
db.pragma('synchronous = FULL')
db.exec('BEGIN IMMEDIATE')
db.prepare('INSERT INTO orders VALUES (?)').run(Number(order))
once.enqueueIn(db, { target: 'bill', payload: { order: Number(order) } })
if (moment === 'after') db.exec('COMMIT')
process.kill(process.pid, 'SIGKILL')
