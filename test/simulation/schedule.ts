// The scheduler: whatever waits, waits here, and chance decides what goes on next. A step of a dead process never comes.
import type { Clock } from '../../src/core/clock.ts'
import type { Chance } from './chance.ts'

/** One simulated process, from its start to its death. */
export interface Life {
  readonly name: string
  isDead: boolean
  /** Stopped, as by SIGSTOP or a blocked loop, until this true time. */
  stalledUntil: number
}

interface Step {
  /** Not before this true time. */
  readonly at: number
  /** Null: the world's own, which survives every process. */
  readonly life: Life | null
  readonly label: string
  readonly run: () => void
}

export interface Schedule {
  /** True time, in ms: what the API lives by, and every monotonic clock. */
  now(): number
  /** What the wall clocks say beside it. */
  wallOffset: number
  readonly trace: string[]
  /** Waits for its turn; never comes back to a dead process. */
  step(life: Life | null, label: string, afterMs?: number): Promise<void>
  later(life: Life | null, label: string, afterMs: number, run: () => void): () => void
  clockOf(life: Life): Clock
  /** Runs one step that is due, or lets time pass to the next. @param labels of no others. @returns false where nothing waits. */
  advance(labels?: readonly string[]): Promise<boolean>
  /** Whatever goes on by itself, at a store that is elsewhere too, has come to rest. */
  settle(): Promise<void>
  /** Processes are slow, the world is not: what it does in that time is done in it. */
  pass(ms: number): Promise<void>
  note(what: string): void
}

/** Hops of the event loop after which everything that can go on by itself has: a worker rests for one after its turn. */
const HOPS = 2

/** @param rested waits for what is under way at the store. @returns false: nothing was. */
export function createSchedule(chance: Chance, startAt: number, rested: () => Promise<boolean>): Schedule {
  let time = startAt
  let steps: Step[] = []
  const trace: string[] = []
  const schedule: Schedule = {
    now: () => time,
    wallOffset: 0,
    trace,
    note: (what) => void trace.push(`${time - startAt}: ${what}`),
    later: (life, label, afterMs, run) => {
      const step: Step = { at: time + afterMs, life, label, run }
      steps.push(step)
      return () => {
        steps = steps.filter((other) => other !== step)
      }
    },
    step: (life, label, afterMs = 0) =>
      new Promise<void>((resolve) => {
        schedule.later(life, label, afterMs, resolve)
      }),
    clockOf: (life) => ({
      wallNow: () => time + schedule.wallOffset,
      monotonicNow: () => time,
      // A loop under load looks late: fewer, and more various, polls.
      after: (ms, wake) => schedule.later(life, 'timer', ms + (ms >= 20 ? chance.below(200) : 0), wake),
    }),
    pass: async (ms) => {
      const until = time + ms
      for (;;) {
        const world = steps.filter(({ life, at }) => life === null && at <= until)
        if (world.length === 0) break
        await take(earliest(world))
      }
      time = until
    },
    settle: async () => {
      while (await rested()) await hop()
    },
    advance: async (labels) => {
      // What an action set off goes on first, as far as it can by itself.
      if (steps.length === 0) await goOn()
      steps = steps.filter(({ life }) => life === null || !life.isDead)
      const asked = labels === undefined ? steps : steps.filter(({ label }) => labels.includes(label))
      if (asked.length === 0) return false
      const due = asked.filter((step) => comesAt(step) <= time)
      await take(due.length > 0 ? chance.pick(due) : earliest(asked))
      return true
    },
  }

  async function take(step: Step): Promise<void> {
    time = Math.max(time, comesAt(step))
    steps = steps.filter((other) => other !== step)
    if (step.label !== 'timer') schedule.note(`${step.life?.name ?? 'world'} ${step.label}`)
    step.run()
    await goOn()
  }

  async function goOn(): Promise<void> {
    await hop()
    await schedule.settle()
  }

  return schedule
}

export async function hop(): Promise<void> {
  for (let i = 0; i < HOPS; i++) await new Promise<void>((resolve) => setImmediate(resolve))
}

function comesAt({ at, life }: Step): number {
  return Math.max(at, life?.stalledUntil ?? 0)
}

function earliest(steps: readonly Step[]): Step {
  return steps.reduce((first, step) => (comesAt(step) < comesAt(first) ? step : first))
}
