// npm run bench -- [SCENARIO ...] [--quick | --huge] [--rounds N] [--json FILE]
// Exit 0: everything was measured, whatever the figures say. 1: a scenario broke. 2: usage.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { describeMachine } from './machine.ts'
import { type Measured, machineLine, type Report, toJson, toTable } from './report.ts'
import type { Figure, Scenario, Size } from './scenario.ts'
import { SCENARIOS } from './scenarios.ts'

const ROUNDS = 5
const QUICK_ROUNDS = 3

interface Asked {
  readonly scenarios: readonly Scenario[]
  readonly size: Size
  readonly rounds: number
  readonly jsonFile: string | null
}

function say(line: string): void {
  process.stderr.write(`${line}\n`)
}

function usage(message: string): never {
  say(message)
  say('npm run bench -- [SCENARIO ...] [--quick | --huge] [--rounds N] [--json FILE]')
  for (const { name, says } of SCENARIOS) say(`  ${name.padEnd(12)}${says}`)
  process.exit(2)
}

function readArguments(): Asked {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        quick: { type: 'boolean', default: false },
        huge: { type: 'boolean', default: false },
        rounds: { type: 'string' },
        json: { type: 'string' },
      },
    })
    if (values.quick && values.huge) usage('--quick and --huge exclude each other')
    const size = values.quick ? 'quick' : values.huge ? 'huge' : 'full'
    const rounds = Number(values.rounds ?? (values.quick ? QUICK_ROUNDS : ROUNDS))
    if (!Number.isSafeInteger(rounds) || rounds < 1) usage(`"${values.rounds}" is no number of rounds above 0`)
    return { scenarios: chosen(positionals), size, rounds, jsonFile: values.json ?? null }
  } catch (error) {
    return usage((error as Error).message)
  }
}

function chosen(names: readonly string[]): readonly Scenario[] {
  if (names.length === 0) return SCENARIOS
  return names.map(
    (name) => SCENARIOS.find((scenario) => scenario.name === name) ?? usage(`no scenario is called "${name}"`),
  )
}

async function measure(scenario: Scenario, { size, rounds }: Asked): Promise<Measured[]> {
  const folder = mkdtempSync(join(tmpdir(), `onceish-bench-${scenario.name}-`))
  const figures: Measured[] = []
  const startedAt = performance.now()
  try {
    say(`${scenario.name}: ${scenario.says}`)
    const figure = ({ aim, ...found }: Figure) => {
      // Aims are for the full size: a look says nothing of them.
      const aimed = aim === undefined || size === 'quick' ? {} : { aim }
      figures.push({ scenario: scenario.name, ...found, ...aimed })
    }
    await scenario.run({ size, rounds, folder, say, figure })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  say(`${scenario.name}: ${Math.round((performance.now() - startedAt) / 1000)} s`)
  return figures
}

async function main(): Promise<void> {
  const asked = readArguments()
  const figures: Measured[] = []
  const machine = describeMachine(tmpdir())
  say(machineLine(machine))
  for (const scenario of asked.scenarios) figures.push(...(await measure(scenario, asked)))
  const report: Report = { at: new Date().toISOString(), size: asked.size, rounds: asked.rounds, machine, figures }
  process.stdout.write(`${machineLine(machine)}\n${toTable(report)}\n`)
  if (asked.jsonFile !== null) writeFileSync(asked.jsonFile, toJson(report))
}

await main()
