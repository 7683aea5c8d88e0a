// A short run of `npm run torture`, which goes on for as long as one likes.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { countProof } from '../support/proof.ts'
import { tempDir } from '../support/temp-dir.ts'
import { torture } from './torture.ts'

const KILLS = 16
const RUN_SCRIPT = fileURLToPath(new URL('../support/run-script.mjs', import.meta.url))
const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url))

test('whoever is killed in mid-work, nothing is lost and nothing happens twice', async () => {
  const tortured = await torture({ seed: 1, folder: tempDir(), isEnough: ({ kills }) => kills >= KILLS })
  expect(tortured.violations).toEqual([])
  expect(tortured.duplicates).toBe(0)
  countProof('kills', tortured.kills)
  // It was no idle run: each way out of doubt was taken.
  expect(tortured.requests).toBeGreaterThan(200)
  for (const taken of [tortured.replays, tortured.adopted, tortured.held]) expect(taken).toBeGreaterThan(0)
  for (const state of ['submitted', 'dead', 'canceled']) expect(tortured.states[state], state).toBeGreaterThan(0)
}, 300_000)

test.each([
  ['--minutes', '0'],
  ['--seed', '-1'],
  ['--sed', '1'],
])('%s %s is a usage error', (...args) => {
  const { status, stderr } = spawnSync(process.execPath, [RUN_SCRIPT, MAIN, ...args], { encoding: 'utf8' })
  expect({ status, isSaid: stderr.length > 0 }).toEqual({ status: 2, isSaid: true })
})
