// The protocol by seeds, as test/simulation has it, on a real server: transactions of several processes interleave, and answers to
// commits are lost. With ONCEISH_TEST_FULL=1 more of them, and rules are taken out, those of the server's store first.
import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadPatched } from '../simulation/library.ts'
import { proveSchedules } from '../simulation/prove.ts'
import { RULES, type Rule } from '../simulation/rules.ts'
import { stageFolder } from '../simulation/run.ts'
import { serverGround, startQuickServer } from '../simulation/server-ground.ts'
import { SERVER_RULES } from '../simulation/server-rules.ts'
import { openStage } from '../simulation/stage.ts'
import { countProof } from '../support/proof.ts'

const isFull = process.env['ONCEISH_TEST_FULL'] === '1'
const SCHEDULES = isFull ? 400 : 40
/** Rules of every engine, with seeds that show them on this one. */
const OF_BOTH: Readonly<Record<string, number>> = {
  'fencing-on-settle': 7,
  'settled-stays-settled': 12,
  'lease-at-the-write': 18,
  'one-of-a-key-at-a-time': 1,
  'sticky-doubt': 94,
}
/** From a seed on that shows it: where the schedule is drawn otherwise, one of the next does as well. */
const SEARCHED = 150
const PATIENCE_MS = 600_000

let server: Awaited<ReturnType<typeof startQuickServer>>
beforeAll(async () => {
  server = await startQuickServer()
})
afterAll(() => server.stop())

proveSchedules(1, SCHEDULES, () => serverGround(server.url), 20)

const taken: readonly Rule[] = [
  ...SERVER_RULES,
  ...RULES.flatMap((rule) => {
    const seed = OF_BOTH[rule.name]
    return seed === undefined ? [] : [{ ...rule, seed }]
  }),
]

test.each(isFull ? taken.map((rule) => [rule.name, rule] as const) : [])(
  'without %s the simulation finds what breaks',
  async (name, { patches, often, seed: first }) => {
    const folder = stageFolder()
    const library = await loadPatched(patches, folder)
    const broken = openStage(library, await serverGround(server.url)(library, folder), often)
    try {
      for (let seed = first; seed < first + SEARCHED; seed++) {
        if ((await broken.run(seed)).violations.length > 0) return countProof('rules')
      }
      expect.fail(`${SEARCHED} schedules hold without ${name}`)
    } finally {
      await broken.close()
      rmSync(folder, { recursive: true, force: true })
    }
  },
  PATIENCE_MS,
)
