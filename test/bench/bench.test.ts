// The bench's own arithmetic and words. What it measures is nobody's assertion.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { type Report, toJson, toTable } from './report.ts'
import { inTurn, median, quantile, ratios } from './rounds.ts'
import { SCENARIOS } from './scenarios.ts'

const MACHINE = {
  cpu: 'x',
  cores: 2,
  memoryGiB: 4,
  os: 'linux',
  node: 'v20',
  packages: {},
  fdatasyncMs: 0.1,
  fileSystemType: '0x0',
}

function reportOf(figures: Report['figures']): Report {
  return { at: '2026-01-01T00:00:00.000Z', size: 'full', rounds: 3, machine: MACHINE, figures }
}

test('arms run once a round, and none is always the first', async () => {
  const order: string[] = []
  const arm = (name: string, value: number) => () => {
    order.push(name)
    return value
  }
  const measured = await inTurn(3, { a: arm('a', 1), b: arm('b', 2) })
  expect(order.join('')).toBe('abbaab')
  expect(measured).toEqual({ a: [1, 1, 1], b: [2, 2, 2] })
})

test('ratios are of one round, medians between the two in the middle', () => {
  expect(ratios([10, 30], [20, 10])).toEqual([0.5, 3])
  expect(median([3, 1, 2])).toBe(2)
  expect(median([4, 1, 2, 3])).toBe(2.5)
  expect(quantile([1, 2, 3, 4, 5], 0.99)).toBeCloseTo(4.96)
})

test('a figure is reached by its median, and one without an aim is only told', () => {
  const unit = 'of bare undici'
  const report = reportOf([
    { scenario: 's', name: 'near', unit, values: [0.1, 0.9, 0.95], aim: { atLeast: 0.9 } },
    { scenario: 's', name: 'far', unit, values: [6, 7, 1], aim: { atMost: 5 } },
    { scenario: 's', name: 'told', unit, values: [1, 1, 1] },
  ])
  const { figures } = JSON.parse(toJson(report)) as { figures: { median: number; reached: boolean | null }[] }
  expect(figures.map(({ median: middle, reached }) => [middle, reached])).toEqual([
    [0.9, true],
    [6, false],
    [1, null],
  ])
  const rows = toTable(report).split('\n')
  expect(rows.find((row) => row.includes('near'))).toMatch(/0\.9 .*0\.1 \.\. 0\.95 .*at least 0\.9 .*reached/)
  expect(rows.find((row) => row.includes('far'))).toMatch(/at most 5 .*missed/)
})

test('every scenario has a name of its own and says what it compares', () => {
  const names = SCENARIOS.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  for (const { says } of SCENARIOS) expect(says).not.toBe('')
})

const RUN_SCRIPT = fileURLToPath(new URL('../support/run-script.mjs', import.meta.url))
const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url))

test.each([
  [['nothing'], 'no scenario is called "nothing"'],
  [['--quick', '--huge'], 'exclude each other'],
  [['--rounds', 'few'], '"few" is no number of rounds above 0'],
  [['--unknown'], "Unknown option '--unknown'"],
])('usage: %j', (asked, message) => {
  const { status, stderr } = spawnSync(process.execPath, [RUN_SCRIPT, MAIN, ...asked], { encoding: 'utf8' })
  expect(stderr).toContain(message)
  expect(stderr).toContain('npm run bench -- [SCENARIO ...]')
  expect(status).toBe(2)
})
