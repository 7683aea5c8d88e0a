// One schedule: a few requests, two workers that are killed and started again, an operator, an API of five kinds, clocks that
// jump, a store that fails. After the chaos comes calm, and then what was promised must hold.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../../src/config/config.ts'
import { OnceishError } from '../../src/core/errors.ts'
import type { AttemptResult } from '../../src/core/settlement.ts'
import type { Onceish } from '../../src/index.ts'
import type { Store } from '../../src/store/store.ts'
import type { RequestDetail } from '../../src/store/views.ts'
import type { Target } from '../../src/target/target.ts'
import { createApi, type Kind } from './api-model.ts'
import { type Chance, createChance } from './chance.ts'
import { violationsOf } from './invariants.ts'
import type { Library } from './library.ts'
import { createSchedule, type Life, type Schedule } from './schedule.ts'
import { configFor, KINDS, modelTarget, nameOf } from './targets.ts'

export interface Outcome {
  readonly seed: number
  readonly steps: number
  readonly crashes: number
  readonly violations: readonly string[]
  readonly trace: readonly string[]
}

/** Where schedules are run one after the other: one file, emptied between them. */
export interface Stage {
  run(seed: number, chaosSteps?: number): Promise<Outcome>
  close(): Promise<void>
}

export interface Owed {
  readonly kind: Kind
  readonly hash: string
  readonly payload: object
  readonly requestId: number
  /** As calls and effects name it. */
  readonly name: string
  readonly isPoison: boolean
  /** Second effects that a person has accepted. */
  accepted: number
}

const START = Date.UTC(2030, 0, 1)
const CHAOS_STEPS = 160
/** So many steps of calm, and a request still owed, is a loop without an end. */
const CALM_STEPS = 6000

/**
 * How far the wall clocks may fall behind the truth. A clock that is set back by more than the margin covers, while nobody who
 * has seen the time runs, cannot be noticed by anybody.
 */
const SETBACK_MS = -1000

type Action = 'go on' | 'kill' | 'stall' | 'start' | 'jump' | 'enqueue' | 'operate' | 'deliver again' | 'pass time'
const ACTIONS: Readonly<Record<Action, number>> = {
  'go on': 100,
  kill: 3,
  stall: 2,
  start: 6,
  jump: 0.7,
  enqueue: 2,
  operate: 3,
  'deliver again': 1.5,
  'pass time': 2,
}

export async function openStage(library: Library, folder: string): Promise<Stage> {
  const path = join(folder, 'simulation.db')
  const config = configFor(library, path)
  const store = await library.openStore(path, { create: true, now: START })
  const watching = await library.openStore(path, { create: true, now: START })
  const { default: Database } = await import('better-sqlite3')
  const raw = new Database(path)
  // What is proved here is order, not disks: the sync has its own test.
  for (const db of [raw]) db.pragma('synchronous = OFF')
  const reset = raw.transaction(() => {
    for (const table of TABLES) raw.exec(`DELETE FROM ${table}`)
    raw.exec('DELETE FROM sqlite_sequence')
    raw.prepare('UPDATE store SET high_water_at = ?, has_called = 0').run(START)
    rmSync(`${path}-calls`, { force: true })
  })
  const TABLES = raw
    .prepare(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'store'`)
    .pluck()
    .all() as string[]
  return {
    run: async (seed, chaosSteps = CHAOS_STEPS) => {
      reset.immediate()
      return runSchedule({ library, config, store, watching }, seed, chaosSteps)
    },
    close: async () => {
      raw.close()
      await watching.close()
      await store.close()
    },
  }
}

interface Props {
  readonly library: Library
  readonly config: Config
  readonly store: Store
  readonly watching: Store
}

interface Worker {
  readonly life: Life
  readonly once: Onceish
}

async function runSchedule(props: Props, seed: number, chaosSteps: number): Promise<Outcome> {
  const chance = createChance(seed)
  const schedule = createSchedule(chance, START)
  const world = createWorld(props, chance, schedule)
  const violations: string[] = []
  let steps = 0
  try {
    await world.begin()
    for (; steps < chaosSteps; steps++) await world.act(chance.weigh(ACTIONS))
    await world.calm()
    for (let i = 0; ; i++, steps++) {
      if (i % 20 === 0 && (await world.isOver())) break
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
  return { seed, steps, crashes: world.crashes(), violations, trace: schedule.trace }
}

function createWorld({ library, config, store, watching }: Props, chance: Chance, schedule: Schedule) {
  const api = createApi(schedule, chance)
  const owed: Owed[] = []
  const workers: Worker[] = []
  const told: AttemptResult[] = []
  const ids = new Map<number, string | null>()
  let lives = 0
  let crashes = 0
  let furthestOffset = 0
  let isCalm = false
  let broken: unknown = null
  const lone: Life = { name: 'operator', isDead: false, stalledUntil: 0 }
  let operator: Onceish | null = null

  function open(life: Life): Promise<Onceish> {
    const revision = lives++
    return library.composeOnceish(
      { config, clock: schedule.clockOf(life), actor: life.name },
      {
        openStore: async () => store,
        store: (whole) => (life === lone ? { ...whole, close: async () => {} } : seam(whole, life)),
        random: () => chance.next(),
        target: (target: Target) => modelTarget(target, { life, schedule, api, revision, onCall: poison(life) }),
      },
    )
  }

  /** Every question to the store waits for its turn twice: a process can die before it is done, and after. */
  function seam(whole: Store, life: Life): Store {
    const gated =
      <Given extends unknown[], T>(name: string, member: (...given: Given) => Promise<T>) =>
      async (...given: Given): Promise<T> => {
        await schedule.step(life, `asks the store: ${name}`)
        if (!isCalm && name === 'turn' && chance.is(0.01)) throw new OnceishError('STORE_FULL', 'no space, as told')
        const result = await member(...given)
        await schedule.step(life, `heard the store: ${name}`)
        return result
      }
    return {
      ...whole,
      facts: async () => ({ ...(await whole.facts()), folderPath: null }),
      turn: gated('turn', (input) => {
        told.push(...input.results)
        return whole.turn(input)
      }),
      releaseChecks: gated('releaseChecks', whole.releaseChecks),
      saveDescriptions: whole.saveDescriptions,
      watchChanges: (targets) => watching.watchChanges(targets),
      close: async () => {},
    }
  }

  /** A request that kills whoever calls for it, every time. */
  function poison(life: Life): (moment: 'before' | 'after', payload: string) => void {
    return (moment, payload) => {
      if (payload.includes(`kill ${moment}`)) kill(life)
    }
  }

  function kill(life: Life): void {
    if (life.isDead) return
    life.isDead = true
    crashes++
    schedule.note(`${life.name} is killed`)
  }

  function stall(life: Life): void {
    const ms = chance.pick([400, 1800, 4000])
    life.stalledUntil = schedule.now() + ms
    schedule.note(`${life.name} is stopped for ${ms} ms`)
  }

  async function start(): Promise<void> {
    const alive = workers.filter(({ life }) => !life.isDead)
    if (alive.length >= 2) return
    const life: Life = { name: `w${lives + 1}`, isDead: false, stalledUntil: 0 }
    schedule.note(`${life.name} starts`)
    const once = await open(life)
    workers.push({ life, once })
    const worker = once.startWorker()
    worker.done.catch((error: unknown) => {
      if (!life.isDead) broken = error
    })
  }

  async function enqueue(): Promise<void> {
    const again = owed.length > 0 && chance.is(0.3) ? chance.pick(owed) : null
    const kind = again?.kind ?? chance.pick(KINDS)
    const hash = again?.hash ?? `r${owed.length + 1}`
    const isPoison = again?.isPoison ?? chance.is(0.04)
    const fate = isPoison ? { fate: `kill ${chance.pick(['before', 'after'])}` } : {}
    const payload = again?.payload ?? { hash, ...fate }
    const made = await operator?.enqueue({
      target: kind,
      payload,
      logicalHash: hash,
      priority: chance.below(3),
    })
    const isKnown = owed.some(({ requestId }) => requestId === made?.requestId)
    if (made !== undefined && !isKnown) {
      const name = nameOf({ logicalHash: hash, requestId: made.requestId })
      owed.push({ kind, hash, payload, requestId: made.requestId, name, isPoison, accepted: 0 })
    }
    schedule.note(
      `enqueues ${hash} (${kind}${isPoison ? ', poison' : ''}): ${made?.deduplicated ? 'there already' : 'new'}`,
    )
  }

  /** A person, who looks before they speak, and only says what is so. */
  async function operate(): Promise<void> {
    const one = owed.length === 0 ? null : chance.pick(owed)
    const seen = one === null ? null : await operator?.get(one.requestId)
    if (one === null || !seen || operator === null) return
    const word = { ifVersion: seen.version }
    const effects = api.effects.filter(({ of }) => of === one.name)
    try {
      switch (chance.pick(['cancel', 'retry', 'resolve', 'pause', 'resume', 'resume'] as const)) {
        case 'cancel':
          await operator.cancel(one.requestId, word)
          return schedule.note(`a person cancels ${one.name}`)
        case 'retry':
          await operator.retry(one.requestId, word)
          return schedule.note(`a person retries ${one.name}`)
        case 'pause':
          await operator.pause(one.kind)
          return schedule.note(`a person pauses ${one.kind}`)
        case 'resume':
          for (const kind of KINDS) await operator.resume(kind)
          return
        case 'resolve':
          await resolve(
            one,
            seen,
            effects.map(({ id }) => id),
          )
      }
    } catch (error) {
      schedule.note(`a person is refused: ${(error as Error).message}`)
    }
  }

  async function resolve(one: Owed, seen: RequestDetail, taskIds: readonly string[]): Promise<void> {
    if (operator === null || seen.state !== 'held') return
    const word = { ifVersion: seen.version }
    const [taskId] = taskIds
    if (taskId !== undefined && chance.is(0.7)) {
      await operator.resolve(one.requestId, { kind: 'task_id', taskId }, word)
      return schedule.note(`a person says that ${one.name} is ${taskId}`)
    }
    const result = await operator.resolve(one.requestId, { kind: 'retry_accepting_duplicates' }, word)
    if (result.kind === 'applied') one.accepted += Math.max(1, seen.taskState?.doubtfulAttempts.length ?? 1)
    schedule.note(`a person accepts a duplicate of ${one.name}: ${result.kind}`)
  }

  /** An answer that was spilled, or that a network sent twice, comes again. */
  async function deliverAgain(): Promise<void> {
    if (told.length === 0 || operator === null) return
    const result = chance.pick(told)
    schedule.note(`the answer of ${result.requestId} attempt ${result.attempt} (${result.outcome.kind}) comes again`)
    await settleLate(operator, store, result)
  }

  async function settleLate(whose: Onceish, into: Store, result: AttemptResult): Promise<void> {
    const policies = Object.fromEntries(
      Object.values(whose.config.codeTargets).map(({ name, policy }) => [name, policy]),
    )
    const now = schedule.now() + schedule.wallOffset
    await into.turn({
      now: () => now,
      latestNow: () => now,
      worker: { name: 'late', boot: 'late' },
      leaseMs: 1000,
      results: [result],
      renewals: [],
      reconciliations: [],
      trackings: [],
      claim: { slots: 0, targets: [], prepare: () => ({ kind: 'dead', reason: 'never', note: '' }) },
      check: { slots: 0, targets: [] },
      policyOf: (target) => policies[target],
      random: () => chance.next(),
    })
  }

  async function goOn(): Promise<void> {
    if (isCalm && workers.every(({ life }) => life.isDead)) await start()
    if (!(await schedule.advance())) await schedule.pass(50)
    if (broken !== null) throw broken
    if (chance.is(0.1)) await checkWriteOnce()
  }

  /** A task id that was once written stays. */
  async function checkWriteOnce(): Promise<void> {
    for (const { requestId, state, taskId } of await store.viewsOf(owed.map((one) => one.requestId))) {
      if (state !== 'submitted') continue
      const before = ids.get(requestId) ?? taskId
      if (before !== taskId) throw new Error(`request ${requestId} was task ${before} and is ${taskId}`)
      ids.set(requestId, taskId)
    }
  }

  return {
    begin: async () => {
      operator = await open(lone)
      for (let i = chance.below(3) + 1; i > 0; i--) await enqueue()
      await start()
      await start()
    },
    act: async (action: Action) => {
      const alive = workers.filter(({ life }) => !life.isDead)
      if (action === 'kill' && alive.length > 0) kill(chance.pick(alive).life)
      else if (action === 'stall' && alive.length > 0) stall(chance.pick(alive).life)
      else if (action === 'start') await start()
      else if (action === 'enqueue' && owed.length < 5) await enqueue()
      else if (action === 'operate') await operate()
      else if (action === 'deliver again') await deliverAgain()
      else if (action === 'pass time') await schedule.pass(chance.pick([50, 400, 1600, 5000]))
      else if (action === 'jump') {
        const jump = Math.max(
          chance.pick([-600_000, -5000, -800, 800, 5000, 600_000]),
          SETBACK_MS - schedule.wallOffset,
        )
        schedule.wallOffset += jump
        furthestOffset = Math.max(furthestOffset, schedule.wallOffset)
        schedule.note(`the wall clock jumps by ${jump}`)
      } else await goOn()
    },
    goOn,
    calm: async () => {
      for (const kind of KINDS) await operator?.resume(kind)
      isCalm = true
      api.isCalm = true
      // Somebody sets the clocks right: none is behind what the store has seen.
      schedule.wallOffset = furthestOffset
      schedule.note('calm')
    },
    isOver: async () => {
      if (operator === null) return true
      const status = await operator.status()
      const { ready = 0, scheduled = 0, invoking = 0, unknown = 0 } = status.states
      return ready + scheduled + invoking + unknown === 0
    },
    violations: async () => {
      const rows = await Promise.all(owed.map(async (one) => ({ one, row: await store.get(one.requestId) })))
      return violationsOf(rows, api)
    },
    crashes: () => crashes,
    end: () => {
      for (const { life } of workers) life.isDead = true
    },
  }
}
