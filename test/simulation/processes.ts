// The worker processes of one schedule: the product itself, with every question to its store and every call waiting for its
// turn, so that a process can be stopped or die at each of them.
import type { Config } from '../../src/config/config.ts'
import { OnceishError } from '../../src/core/errors.ts'
import type { AttemptResult } from '../../src/core/settlement.ts'
import type { Onceish } from '../../src/index.ts'
import type { Store } from '../../src/store/store.ts'
import type { TurnInput, TurnResult } from '../../src/store/turn.ts'
import type { Target } from '../../src/target/target.ts'
import type { ApiModel } from './api-model.ts'
import type { Chance } from './chance.ts'
import type { Ground } from './ground.ts'
import type { Library } from './library.ts'
import type { Ledger } from './owed.ts'
import type { Life, Schedule } from './schedule.ts'
import { type CallWatch, modelTarget } from './targets.ts'

export interface Machine {
  readonly library: Library
  readonly config: Config
  readonly ground: Ground
}

export interface Scene {
  readonly machine: Machine
  readonly chance: Chance
  readonly schedule: Schedule
  readonly api: ApiModel
  readonly ledger: Ledger
  /** A worker is about to record these answers: from here on they may be on disk beside the store. */
  readonly onTold: (results: readonly AttemptResult[]) => void
  /** Every turn goes through here. */
  readonly runTurn: (life: Life, input: TurnInput) => Promise<TurnResult>
  readonly onWrite: (requestId: number) => void
}

export interface Processes {
  readonly crashes: number
  alive(): readonly Life[]
  /** A process that only speaks, and never dies. */
  openOperator(): Promise<Onceish>
  /** At most two work at a time. */
  startWorker(): Promise<void>
  kill(life: Life): void
  stall(life: Life): void
  /** The store fails no more. */
  calm(): void
  /** @throws what ended a worker that nobody killed. */
  check(): void
  end(): void
}

export function createProcesses({
  machine,
  chance,
  schedule,
  api,
  ledger,
  onTold,
  runTurn,
  onWrite,
}: Scene): Processes {
  const { library, config, ground } = machine
  let workers: Life[] = []
  let lives = 0
  let crashes = 0
  let isCalm = false
  let broken: unknown = null
  const wakes = new Map<() => void, Life>()
  // One listener for all lives of this schedule: the store outlives them, and the dead never say that they are gone.
  const stopListening = ground.store.onWork(() => {
    for (const [wake, life] of wakes) if (!life.isDead) wake()
  })

  function open(life: Life, store: Store, seam: (whole: Store) => Store): Promise<Onceish> {
    const revision = lives++
    return library.composeOnceish(
      { config, clock: schedule.clockOf(life), actor: life.name },
      {
        openStore: async () => store,
        store: seam,
        random: () => chance.next(),
        target: (target: Target) =>
          modelTarget(target, {
            life,
            schedule,
            chance,
            api,
            revision,
            nameOf: (requestId) => ledger.at(requestId).name,
            watch: (requestId) => watchCall(life, requestId),
          }),
      },
    )
  }

  function watchCall(life: Life, requestId: number): CallWatch {
    const one = ledger.at(requestId)
    const killAt = (moment: string) => {
      if (one.isPoison && JSON.stringify(one.payload).includes(`kill ${moment}`)) kill(life)
    }
    return {
      onDial: () => {
        // Where it hurts: the call is claimed, and its bytes have not left.
        if (!isCalm && chance.is(0.04)) stall(life)
      },
      onWrite: () => {
        one.calls++
        onWrite(requestId)
        killAt('before')
      },
      onWritten: () => killAt('after'),
      onRefund: () => {
        one.calls--
      },
    }
  }

  /** Every question to the store waits for its turn twice: a process can die before it is done, and after. */
  function seamOf(life: Life): (whole: Store) => Store {
    return (whole) => ({
      ...whole,
      facts: async () => ({ ...(await whole.facts()), folderPath: null }),
      turn: async (input) => {
        onTold(input.results)
        await schedule.step(life, 'asks the store: turn')
        if (!isCalm && chance.is(0.01)) throw new OnceishError('STORE_FULL', 'no space, as told')
        const result = await runTurn(life, input)
        await schedule.step(life, 'heard the store: turn')
        return result
      },
      releaseChecks: async (...given) => {
        await schedule.step(life, 'asks the store: releaseChecks')
        await whole.releaseChecks(...given)
      },
      onWork: (wake) => {
        wakes.set(wake, life)
        return () => wakes.delete(wake)
      },
      boundLog: async () => ({ bytes: 0, isHeld: false }),
      close: async () => {},
    })
  }

  function kill(life: Life): void {
    if (life.isDead) return
    life.isDead = true
    workers = workers.filter((other) => other !== life)
    crashes++
    schedule.note(`${life.name} is killed`)
  }

  function stall(life: Life): void {
    const ms = chance.pick([400, 1800, 4000, 9000])
    life.stalledUntil = schedule.now() + ms
    schedule.note(`${life.name} is stopped for ${ms} ms`)
  }

  return {
    get crashes() {
      return crashes
    },
    alive: () => workers,
    openOperator: () =>
      open({ name: 'operator', isDead: false, stalledUntil: 0 }, ground.store, (whole) => ({
        ...whole,
        close: async () => {},
      })),
    startWorker: async () => {
      if (workers.length >= 2) return
      const life: Life = { name: `w${lives + 1}`, isDead: false, stalledUntil: 0 }
      schedule.note(`${life.name} starts`)
      workers = [...workers, life]
      const once = await open(life, ground.storeOf(life), seamOf(life))
      once.startWorker().done.catch((error: unknown) => {
        if (!life.isDead) broken = error
      })
    },
    kill,
    stall,
    calm: () => {
      isCalm = true
    },
    check: () => {
      if (broken !== null) throw broken
    },
    end: () => {
      for (const life of workers) life.isDead = true
      stopListening()
    },
  }
}
