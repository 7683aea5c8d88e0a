// The product without one of its rules breaks. The recorded seed shows it at once; with ONCEISH_TEST_FULL=1 each rule is
// searched afresh from the first seed on.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { COVERED } from './covered.ts'
import { openFileGround } from './ground.ts'
import { proveRule } from './prove.ts'
import { RULES } from './rules.ts'
import { SERVER_RULES } from './server-rules.ts'

const isFull = process.env.ONCEISH_TEST_FULL === '1'
/** Where an engine draws otherwise than the one that recorded a seed, one of the next does as well. */
const SEARCHED = isFull ? 20_000 : 300
const PATIENCE_MS = isFull ? 1_800_000 : 120_000

test.each(RULES.map((rule) => [rule.name, rule] as const))(
  'without %s the simulation finds what breaks',
  (_, rule) => proveRule(rule, isFull ? 1 : rule.seed, SEARCHED, openFileGround),
  PATIENCE_MS,
)

test('names are what a command line takes, and each stands for one rule', () => {
  const names = [...RULES, ...SERVER_RULES, ...COVERED].map(({ name }) => name)
  for (const name of names) expect(name).toMatch(/^[a-z0-9-]+$/)
  expect(new Set(names).size).toBe(names.length)
})

test.each(COVERED.map((rule) => [rule.name, rule] as const))('%s has a test of its own', (_, { file, test: title }) => {
  expect(readFileSync(new URL(`../${file}`, import.meta.url), 'utf8')).toContain(`'${title}'`)
})
