// `npm run torture` refuses what it cannot read.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const RUN_SCRIPT = fileURLToPath(new URL('../support/run-script.mjs', import.meta.url))
const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url))

test.each([
  ['--minutes', '0'],
  ['--seed', '-1'],
  ['--sed', '1'],
])('%s %s is a usage error', (...args) => {
  const { status, stderr } = spawnSync(process.execPath, [RUN_SCRIPT, MAIN, ...args], { encoding: 'utf8' })
  expect({ status, isSaid: stderr.length > 0 }).toEqual({ status: 2, isSaid: true })
})
