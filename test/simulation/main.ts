// npm run simulate -- [--engine sqlite|postgres] [--runs N] [--seed S] [--rules | --without RULE]
// Exit 0: everything held. 1: a violation, with its seed and shortest trace. 2: usage.
import { rmSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { openFileGround } from './ground.ts'
import { loadLibrary, loadPatched } from './library.ts'
import { RULES, type Rule } from './rules.ts'
import { stageFolder, whole } from './run.ts'
import { findServer, serverGround } from './server-ground.ts'
import { SERVER_RULES } from './server-rules.ts'
import { CHAOS_STEPS, type Outcome, openStage, type Stage } from './stage.ts'

const WITHOUT_RUNS = 20_000

interface Asked {
  readonly runs: number
  readonly seed: number
  readonly without: string | null
  readonly engine: Engine
}

const ENGINES = ['sqlite', 'postgres'] as const
type Engine = (typeof ENGINES)[number]

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

function usage(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}

function readArguments(): Asked | null {
  try {
    const { values } = parseArgs({
      options: {
        runs: { type: 'string' },
        seed: { type: 'string' },
        rules: { type: 'boolean' },
        without: { type: 'string' },
        engine: { type: 'string', default: 'sqlite' },
      },
    })
    if (values.rules) return null
    const without = values.without ?? null
    const engine = ENGINES.find((name) => name === values.engine)
    if (engine === undefined) usage(`no engine is called "${values.engine}": ${ENGINES.join(', ')}`)
    if (without !== null && !rulesOf(engine).some(({ name }) => name === without))
      usage(`no rule is called "${without}": --rules lists them`)
    return {
      runs: whole(values.runs ?? String(without === null ? 2000 : WITHOUT_RUNS)),
      seed: whole(values.seed ?? '1'),
      without,
      engine,
    }
  } catch (error) {
    return usage((error as Error).message)
  }
}

/** Those that the engine has. */
function rulesOf(engine: Engine): readonly Rule[] {
  return engine === 'postgres' ? [...RULES, ...SERVER_RULES] : RULES
}

/** The smallest chaos that this seed needs. */
async function shortest(stage: Stage, { seed }: Outcome): Promise<Outcome> {
  for (let chaos = 0; ; chaos += 4) {
    const outcome = await stage.run(seed, chaos)
    if (outcome.violations.length > 0) return outcome
    if (chaos >= CHAOS_STEPS) return stage.run(seed)
  }
}

async function simulate({ runs, seed, without, engine }: Asked): Promise<number> {
  const rule = rulesOf(engine).find(({ name }) => name === without)
  const folder = stageFolder()
  const library = rule === undefined ? await loadLibrary() : await loadPatched(rule.patches, folder)
  const server = engine === 'postgres' ? await findServer() : null
  const ground = await (server === null ? openFileGround : serverGround(server.url))(library, folder)
  const stage = openStage(library, ground, rule?.often)
  const startedAt = performance.now()
  let steps = 0
  let crashes = 0
  try {
    for (let run = 0; run < runs; run++) {
      const outcome = await stage.run(seed + run)
      steps += outcome.steps
      crashes += outcome.crashes
      if (outcome.violations.length === 0) continue
      const least = await shortest(stage, outcome)
      for (const line of least.trace) say(line)
      for (const violation of least.violations) say(`violated: ${violation}`)
      if (without !== null) say(`as it must be: without ${without} the promise breaks`)
      say(
        `seed ${outcome.seed} fails after ${run + 1} schedules; again: npm run simulate -- --runs 1 --seed ${outcome.seed}${engine === 'sqlite' ? '' : ` --engine ${engine}`}${without === null ? '' : ` --without ${without}`}`,
      )
      return 1
    }
    const ms = Math.round(performance.now() - startedAt)
    say(`${runs} schedules from seed ${seed}: ${steps} steps, ${crashes} crashes, 0 violations, ${ms} ms`)
    return 0
  } finally {
    await stage.close()
    await server?.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

const asked = readArguments()
if (asked === null) for (const { name, what } of [...RULES, ...SERVER_RULES]) say(`${name}  ${what}`)
else process.exitCode = await simulate(asked)
