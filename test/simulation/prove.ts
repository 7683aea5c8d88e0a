// So many schedules, each of which must hold what was promised. Two test files share the work, so that both cores do.
import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { countProof } from '../support/proof.ts'
import { type OpenGround, openFileGround } from './ground.ts'
import { loadLibrary, loadPatched } from './library.ts'
import type { Rule } from './rules.ts'
import { stageFolder } from './run.ts'
import { openStage, type Stage } from './stage.ts'

const A_PART = 100
/** Of what is proved on files. */
export const HALF = process.env['ONCEISH_TEST_FULL'] === '1' ? 1000 : 300
const PATIENCE_MS = 120_000

/** The product without one rule: one of so many schedules shows it. @param first seed */
export async function proveRule(
  { name, patches, often }: Rule,
  first: number,
  searched: number,
  openGround: OpenGround,
): Promise<void> {
  const folder = stageFolder()
  const library = await loadPatched(patches, folder)
  const broken = openStage(library, await openGround(library, folder), often)
  try {
    for (let seed = first; seed < first + searched; seed++) {
      if ((await broken.run(seed)).violations.length > 0) return countProof('rules')
    }
    expect.fail(`${searched} schedules hold without ${name}`)
  } finally {
    await broken.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** @param first seed; @param aPart so many a test. */
export function proveSchedules(
  first: number,
  count: number,
  openGround: () => OpenGround = () => openFileGround,
  aPart = A_PART,
): void {
  let folder: string
  let stage: Stage
  beforeAll(async () => {
    folder = stageFolder()
    const library = await loadLibrary()
    stage = openStage(library, await openGround()(library, folder))
  })
  afterAll(async () => {
    await stage.close()
    rmSync(folder, { recursive: true, force: true })
  })

  test.each(Array.from({ length: count / aPart }, (_, part) => first + part * aPart))(
    'schedules %i and on hold what was promised',
    async (from) => {
      for (let seed = from; seed < from + aPart; seed++) {
        const { violations, trace, crashes } = await stage.run(seed)
        countProof('schedules')
        countProof('crashes', crashes)
        if (violations.length > 0) expect.fail(`seed ${seed}:\n${[...trace, ...violations].join('\n')}`)
      }
    },
    PATIENCE_MS,
  )

  test('a seed is one schedule: the same steps, every time', async () => {
    // On a server one of them is a crowd, the other has limits.
    for (const seed of [first + 1, first + 6]) {
      const [one, two] = [await stage.run(seed), await stage.run(seed)]
      expect(one.trace.length).toBeGreaterThan(20)
      expect(two.trace).toEqual(one.trace)
    }
  })
}
