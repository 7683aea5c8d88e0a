// Where schedules are run one after the other: one store, emptied between them. After the chaos comes calm, and then what was
// promised must hold.
import { type Chance, createChance } from './chance.ts'
import { type Ground, START } from './ground.ts'
import type { Library } from './library.ts'
import type { Machine } from './processes.ts'
import { CROWDED, FREE, REGIMES, type Regime } from './regimes.ts'
import { createSchedule } from './schedule.ts'
import { configFor } from './targets.ts'
import { type Action, createWorld } from './world.ts'

export interface Outcome {
  readonly seed: number
  readonly steps: number
  readonly crashes: number
  readonly violations: readonly string[]
  readonly trace: readonly string[]
}

export interface Stage {
  run(seed: number, chaosSteps?: number): Promise<Outcome>
  close(): Promise<void>
}

/** How much happens before the calm. */
export const CHAOS_STEPS = 160
/** So many steps of calm, and a request still owed, is a loop without an end; a clock ten minutes behind takes most of them. */
const CALM_STEPS = 15_000
const LOOK_EVERY = 20
/** Each makes another draw of the same seed. */
const ASIDE = 0x5bd1e995
const LIMITS = 0x27d4eb2f
const CROWD = 0x165667b1
/** Of all schedules. */
const LIMITED_SHARE = 0.4
/** Of the others, where the store takes transactions that run at once. */
const CROWDED_SHARE = 0.75

/** @param often what happens more often in its schedules: a rule that few of them touch is found sooner. */
export function openStage(library: Library, ground: Ground, often: readonly Action[] = []): Stage {
  const configs = new Map(
    [FREE, CROWDED, ...REGIMES].map((regime) => [regime, configFor(library, ground.location, regime)]),
  )
  return {
    run: async (seed, chaosSteps = CHAOS_STEPS) => {
      await ground.watch.empty(START)
      const setting = { library, ground, ...(crowdOf(ground, seed) ?? { regime: regimeOf(seed), crowd: null }) }
      const config = configs.get(setting.regime) as Machine['config']
      return runSchedule({ ...setting, config }, often, seed, chaosSteps)
    },
    close: ground.close,
  }
}

function regimeOf(seed: number): Regime {
  const limits = createChance(seed ^ LIMITS)
  return limits.is(LIMITED_SHARE) ? limits.pick(REGIMES) : FREE
}

/** Null: its transactions run one after the other. */
function crowdOf({ takesCrowds }: Ground, seed: number): { readonly regime: Regime; readonly crowd: Chance } | null {
  const crowd = createChance(seed ^ CROWD)
  const isCrowded = takesCrowds && regimeOf(seed) === FREE && crowd.is(CROWDED_SHARE)
  return isCrowded ? { regime: crowd.is(LIMITED_SHARE) ? CROWDED : FREE, crowd } : null
}

interface Setting {
  readonly library: Library
  readonly config: Machine['config']
  readonly ground: Ground
  readonly regime: Regime
  readonly crowd: Chance | null
}

async function runSchedule(
  { library, config, ground, regime, crowd }: Setting,
  often: readonly Action[],
  seed: number,
  chaosSteps: number,
): Promise<Outcome> {
  const chance = createChance(seed)
  const asides = createChance(seed ^ ASIDE)
  const schedule = createSchedule(chance, START, ground.rested)
  const lines = createChance(seed ^ ASIDE)
  ground.begin(schedule, crowd)
  const machine = { library, config, ground }
  const world = createWorld({ machine, watch: ground.watch, regime, chance, asides, lines, schedule }, often)
  const violations: string[] = []
  let steps = 0
  try {
    await world.begin()
    for (; steps < chaosSteps; steps++) {
      if (steps % LOOK_EVERY === 0 && world.isFull() && (await world.isIdle())) break
      await world.act()
    }
    await world.calm()
    for (let i = 0; ; i++, steps++) {
      if (i % LOOK_EVERY === 0 && (await world.isIdle())) break
      if (i >= CALM_STEPS) {
        violations.push(`after ${CALM_STEPS} steps of calm there is still no end`)
        break
      }
      await world.goOn()
    }
    violations.push(...(await world.violations()))
  } catch (error) {
    violations.push(`broke off: ${(error as Error).message}`)
  }
  world.end()
  await schedule.settle()
  return { seed, steps, crashes: world.crashes, violations, trace: schedule.trace }
}
