// The protocol by seeds: whatever is killed, lost, late or turned back, what was promised holds. `npm run simulate` runs more.
import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadLibrary, loadPatched } from './library.ts'
import { RULES } from './rules.ts'
import { stageFolder } from './run.ts'
import { openStage, type Stage } from './world.ts'

const SCHEDULES = 250
const A_PART = 50
/** The recorded seed comes first; where an engine draws otherwise, one of the next does as well. */
const SEARCHED = 1000
const PATIENCE_MS = 120_000

let folder: string
let stage: Stage
beforeAll(async () => {
  folder = stageFolder()
  stage = await openStage(await loadLibrary(), folder)
})
afterAll(async () => {
  await stage.close()
  rmSync(folder, { recursive: true, force: true })
})

test.each(Array.from({ length: SCHEDULES / A_PART }, (_, part) => part * A_PART + 1))(
  'schedules %i and on hold what was promised',
  async (first) => {
    for (let seed = first; seed < first + A_PART; seed++) {
      const { violations, trace } = await stage.run(seed)
      expect(violations, `seed ${seed}:\n${trace.join('\n')}`).toEqual([])
    }
  },
  PATIENCE_MS,
)

test('a seed is one schedule: the same steps, every time', async () => {
  const [one, two] = [await stage.run(7), await stage.run(7)]
  expect(one.trace.length).toBeGreaterThan(20)
  expect(two.trace).toEqual(one.trace)
})

test.each(RULES.map((rule) => [rule.name, rule] as const))(
  'without %s the simulation finds what breaks',
  async (_, { patches, seed }) => {
    const own = stageFolder()
    const broken = await openStage(await loadPatched(patches, own), own)
    try {
      let found = false
      for (let next = seed; !found && next < seed + SEARCHED; next++)
        found = (await broken.run(next)).violations.length > 0
      expect(found).toBe(true)
    } finally {
      await broken.close()
      rmSync(own, { recursive: true, force: true })
    }
  },
  PATIENCE_MS,
)
