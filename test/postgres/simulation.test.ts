// The protocol by seeds, as test/simulation has it, on a real server: transactions of several processes interleave, and answers to
// commits are lost. With ONCEISH_TEST_FULL=1 more of them, and rules are taken out, those of the server's store first.
import { afterAll, beforeAll, test } from 'vitest'
import { proveRule, proveSchedules } from '../simulation/prove.ts'
import { RULES, type Rule } from '../simulation/rules.ts'
import { serverGround, startQuickServer } from '../simulation/server-ground.ts'
import { SERVER_RULES } from '../simulation/server-rules.ts'

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
  (_, rule) => proveRule(rule, rule.seed, SEARCHED, serverGround(server.url)),
  PATIENCE_MS,
)
