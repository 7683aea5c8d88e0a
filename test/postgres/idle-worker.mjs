// A worker with nothing to do, until it is killed. Run by copy.test.ts.
import { writeSync } from 'node:fs'
import { z } from 'zod'
import { defineTarget, openOnceish } from '../../dist/index.js'

const target = defineTarget({ name: 'nobody', version: '1', payload: z.unknown(), invoke: () => ({ taskId: 'none' }) })
const once = await openOnceish({ store: process.argv[2] ?? '', targets: [target] })
once.startWorker()
writeSync(1, 'working\n')
setInterval(() => {}, 1000)
