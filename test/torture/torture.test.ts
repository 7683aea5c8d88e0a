// A short run of `npm run torture`, which goes on for as long as one likes.
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { newLocation } from '../support/engine.ts'
import { countProof } from '../support/proof.ts'
import { tempDir } from '../support/temp-dir.ts'
import { torture } from './torture.ts'

const KILLS = 16

test('whoever is killed in mid-work, nothing is lost and nothing happens twice', async () => {
  const folder = tempDir()
  const store = newLocation(() => join(folder, 'onceish.db'))
  const tortured = await torture({ seed: 1, folder, store, isEnough: ({ kills }) => kills >= KILLS })
  expect(tortured.violations).toEqual([])
  expect(tortured.duplicates).toBe(0)
  countProof('kills', tortured.kills)
  // It was no idle run: each way out of doubt was taken.
  expect(tortured.requests).toBeGreaterThan(200)
  for (const taken of [tortured.replays, tortured.adopted, tortured.held]) expect(taken).toBeGreaterThan(0)
  for (const state of ['submitted', 'dead', 'canceled']) expect(tortured.states[state], state).toBeGreaterThan(0)
}, 300_000)
