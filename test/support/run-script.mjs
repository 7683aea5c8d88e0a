// Runs a TypeScript file of the tests as a process of its own: `node run-script.mjs FILE [ARGUMENT...]`. A loader that is asked
// for one file leaves native packages alone, which a hook for all of them does not under every Node.
import { resolve } from 'node:path'
import { createJiti } from 'jiti'

const [file] = process.argv.splice(2, 1)
await createJiti(import.meta.url).import(resolve(file))
