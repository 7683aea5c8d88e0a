// Copies a store and says after each page how far it is, a line each, for a test that kills it. Run by copy.test.ts.
import { writeSync } from 'node:fs'
import { copyStore } from '../../dist/index.js'

const [from = '', to = ''] = process.argv.slice(2)
await copyStore({ from, to, onProgress: ({ phase, doneRows }) => writeSync(1, `${phase} ${doneRows}\n`) })
