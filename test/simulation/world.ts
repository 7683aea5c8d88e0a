// The world of one schedule: a producer, two workers that are killed and started again, a person, an API of five kinds,
// clocks that jump, a store that fails, is purged, and is lost. One action is one thing that happens to them.
import { steadyTime } from '../../src/core/clock.ts'
import type { AttemptResult } from '../../src/core/settlement.ts'
import { ENDED_STATES } from '../../src/core/task-state.ts'
import type { Onceish } from '../../src/index.ts'
import type { TurnInput, TurnResult } from '../../src/store/turn.ts'
import { ALIKE } from '../support/alike.ts'
import { createApi, type Kind } from './api-model.ts'
import { type Chance, tempered, type Weights } from './chance.ts'
import { watchDeadline, watchTurn, watchWrite } from './fences.ts'
import { falseCertainty, violationsOf } from './invariants.ts'
import { watchLimits } from './limits-watch.ts'
import { createLedger, type Owed } from './owed.ts'
import { resume, speak } from './person.ts'
import { createProcesses, type Machine } from './processes.ts'
import { FREE, type Regime } from './regimes.ts'
import type { Life, Schedule } from './schedule.ts'
import type { StoreCopy, StoreWatch } from './store-watch.ts'
import { KINDS, tellsRepeats } from './targets.ts'
import { outOfTurn } from './turns.ts'

const MAX_OWED = 5

/**
 * Of `margin`, so much is left for a clock that is set back while no worker runs (README, "What it rests on"): the rest covers a
 * call's way. What is more is promised only where a worker sees it.
 */
const SPARED_SETBACK_MS = 800
/** Within so many steps somebody who runs has seen it. */
const SEEN_WITHIN = 100

export type Action =
  | 'go on'
  | 'kill'
  | 'stall'
  | 'start'
  | 'jump'
  | 'enqueue'
  | 'speak'
  | 'deliver again'
  | 'pass time'
  | 'purge'
  | 'lose the store'
  | 'copy the store'
  | 'put the copy back'

const ACTIONS: Weights<Action> = [
  ['go on', 100],
  ['kill', 3],
  ['stall', 2],
  ['start', 6],
  ['jump', 2],
  ['enqueue', 4],
  ['speak', 4],
  ['deliver again', 2],
  ['pass time', 2.5],
  ['purge', 1],
  ['lose the store', 0.15],
  ['copy the store', 0.3],
  ['put the copy back', 0.3],
]

/** How much more often than usual, where a search asks for it. */
const OFTEN = 10

export interface World {
  readonly crashes: number
  begin(): Promise<void>
  act(): Promise<void>
  goOn(): Promise<void>
  /** From here on nothing fails, and whoever is dead is started again. */
  calm(): Promise<void>
  /** Everything that was asked for has come to an end, as far as nobody speaks. */
  isIdle(): Promise<boolean>
  /** Nothing more will be enqueued. */
  isFull(): boolean
  violations(): Promise<readonly string[]>
  end(): void
}

export interface Grounds {
  readonly machine: Machine
  readonly watch: StoreWatch
  readonly chance: Chance
  /** What is drawn here leaves every other draw as it is: schedules without it stay what they were. */
  readonly asides: Chance
  /** Draws ordering keys. */
  readonly lines: Chance
  readonly schedule: Schedule
  readonly regime: Regime
}

/** @param often what happens more often in it than in others. */
export function createWorld(
  { machine, watch, chance, asides, lines, schedule, regime }: Grounds,
  often: readonly Action[],
): World {
  const weights = ACTIONS.map(([name, weight]) => [name, often.includes(name) ? weight * OFTEN : weight] as const)
  const actions = tempered(weights, 'go on', chance)
  /** Some of its requests have a deadline. */
  const hasDeadlines = asides.is(0.3)
  /** Priorities and what queues are ranked by change all the time. */
  const isRestless = asides.is(0.2)
  const kinds = chance.is(0.3) ? KINDS : [chance.pick(KINDS), chance.pick(KINDS)]
  const isLimited = regime !== FREE
  const api = createApi(schedule, chance, regime.isStrict === true)
  const limits = watchLimits(regime, schedule, watch)
  const ledger = createLedger()
  const told: AttemptResult[] = []
  const found = new Set<string>()
  const isOrdered = lines.is(0.4)
  let operator: Onceish
  let furthestOffset = 0
  /** All that were: a jump far ahead that nobody saw must not hide a small one back. */
  const offsets = [0]
  let hasJumped = false
  let isCalm = false
  let copy: StoreCopy | null = null
  let isPutBack = false
  const processes = createProcesses({ machine, chance, schedule, api, ledger, onTold, runTurn, onWrite })

  function onTold(results: readonly AttemptResult[]): void {
    told.push(...results)
  }

  /** Judged by what the store was when the turn was committed, and by the time that it has read. */
  async function runTurn(life: Life | null, input: TurnInput): Promise<TurnResult> {
    let begun = limits.beginTurn()
    let readAt: number | null = null
    const now = () => {
      begun = limits.beginTurn()
      readAt = input.now()
      return readAt
    }
    const seen = { ...input, now: () => readAt ?? now() }
    let wrongAfter: readonly ((result: TurnResult) => readonly string[])[] = []
    const result = await machine.ground.turn(
      life,
      { ...input, now },
      {
        atCommit: () => {
          wrongAfter = [watchTurn(watch, seen), limits.watchTurn(seen, begun)]
        },
        isInDoubt: limits.missTurn,
      },
    )
    for (const wrongOf of wrongAfter) noteAll(wrongOf(result))
    onCommit(input.results)
    return result
  }

  function onWrite(requestId: number): void {
    // A clock that jumped there and back may have let another end a lease whose holder saw nothing of it.
    const wallNow = schedule.now() + schedule.wallOffset
    if (!hasJumped) noteAll(watchWrite(watch, requestId, wallNow))
    if (!hasJumped) noteAll(outOfTurn(watch, ledger, requestId))
    noteAll(watchDeadline(watch, requestId, wallNow))
    noteAll(limits.onWrite(requestId))
  }

  function noteAll(wrongs: readonly string[]): void {
    for (const wrong of wrongs) found.add(wrong)
  }

  function onCommit(results: readonly AttemptResult[]): void {
    for (const result of results) {
      if (!ledger.has(result.requestId)) continue
      const one = ledger.at(result.requestId)
      one.answers.push(result)
      // What was acknowledged need not be shown for ever: the acknowledgement is on disk, and no older copy is.
      if (result.outcome.kind === 'accepted_without_id' && chance.is(0.5) && copy === null) api.forget(one.name)
    }
    checkCertainty()
  }

  /** After every commit: whoever says that nothing is in doubt must be right. */
  function checkCertainty(): void {
    for (const standing of watch.doubtless()) {
      const wrong = falseCertainty(standing, ledger.at(standing.requestId), api)
      if (wrong !== null) found.add(wrong)
    }
    if (isOrdered) noteAll(watch.lineFaults())
  }

  async function enqueue(): Promise<void> {
    // A lost store's numbers of generations are lost too: nobody could tell a new request from the old one.
    // And so are those of what came after a copy that was put back.
    const known = isPutBack
      ? []
      : ledger.all.filter(({ isPoison, isGone }) => !isPoison && !(isGone && api.isRememberingAll))
    const again = known.length > 0 && chance.is(0.3) ? chance.pick(known) : null
    const kind = again?.kind ?? chance.pick(kinds)
    const hash = again?.hash ?? `r${ledger.all.length + 1}`
    const isPoison = again === null && chance.is(0.06)
    const fate = isPoison ? { fate: `kill ${chance.pick(['before', 'after'])}` } : {}
    const payload = again?.payload ?? { hash, ...fate }
    const orderingKey = isOrdered ? lines.pick(['a', 'a', 'b', null]) : null
    const order = { target: kind, payload, logicalHash: hash, orderingKey: orderingKey ?? undefined }
    const made = await operator.enqueue({ ...order, priority: chance.below(3), expiresAt: deadline() })
    if (!ledger.has(made.requestId)) {
      ledger.add({ kind, hash, payload, orderingKey, isPoison, requestId: made.requestId })
    }
    const what = `${hash} (${kind}${isPoison ? ', poison' : ''}${orderingKey === null ? '' : `, key ${orderingKey}`})`
    schedule.note(`enqueues ${what}: ${made.deduplicated ? 'there already' : ledger.at(made.requestId).name}`)
  }

  function deadline(): number | null {
    if (!hasDeadlines || asides.is(0.5)) return null
    return schedule.now() + schedule.wallOffset + asides.pick([100, 600, 2500, 10_000])
  }

  /** Somebody wants another order: of a request, or, by a config of another worker, of a whole queue. */
  async function reorder(): Promise<void> {
    const one = ledger.all.length === 0 ? null : asides.pick(ledger.all)
    const now = schedule.now() + schedule.wallOffset
    if (one === null || one.isGone) return
    if (asides.is(0.5)) {
      const agingMs = asides.pick([null, 100, 3000])
      await machine.ground.store.rank([{ target: one.kind, agingMs }], now, 'another')
      return schedule.note(`${one.kind} is ranked by ${agingMs === null ? 'priority' : `age, ${agingMs} ms a step`}`)
    }
    const { kind } = await operator.reprioritize(one.requestId, asides.below(5))
    schedule.note(`a person gives ${one.name} another priority: ${kind}`)
  }

  /** An answer that was spilled, or that a network sent twice, comes again. */
  async function deliverAgain(): Promise<void> {
    if (told.length === 0) return
    const result = chance.pick(told)
    schedule.note(`the answer of ${result.requestId} attempt ${result.attempt} (${result.outcome.kind}) comes again`)
    const { codeTargets } = machine.config
    const now = schedule.now() + schedule.wallOffset
    await runTurn(null, {
      now: () => now,
      steady: steadyTime({ wallNow: () => now, monotonicNow: () => schedule.now(), after: () => () => {} }),
      worker: { name: 'late', boot: 'late' },
      leaseMs: 1000,
      results: [result],
      renewals: [],
      reconciliations: [],
      trackings: [],
      claim: {
        ...ALIKE,
        slots: 0,
        targets: [],
        buckets: machine.config.buckets,
        prepare: () => ({ kind: 'dead', reason: 'never', note: '' }),
      },
      check: { slots: 0, room: new Map() },
      policyOf: (target) => codeTargets[target]?.policy,
      random: () => chance.next(),
    })
  }

  async function purge(): Promise<void> {
    await machine.ground.finish()
    const present = ledger.all.filter(({ isGone }) => !isGone)
    const before = new Map(present.map((one) => [one, watch.stateOf(one.requestId)]))
    const now = schedule.now() + schedule.wallOffset
    const scope = { before: now, states: ENDED_STATES, targets: null, abandoned: false }
    await machine.ground.store.purgeAfter(0, scope, { now, actor: 'operator', dryRun: false })
    for (const [one, state] of before) {
      if (state === null || watch.stateOf(one.requestId) !== null) continue
      schedule.note(`${one.name} is purged`)
      one.isGone = true
      if (!(ENDED_STATES as readonly string[]).includes(state)) found.add(`${one.name} was ${state} and is purged`)
    }
  }

  /** None of their transactions is left. */
  async function killAll(): Promise<void> {
    for (const life of processes.alive()) processes.kill(life)
    await schedule.settle()
  }

  /** The file is gone with everything in it; the producer enqueues again what it knows, under the same namespace. */
  async function loseTheStore(): Promise<void> {
    schedule.note('the store is lost')
    copy = null
    const generations = new Map<Owed, number>()
    for (const one of ledger.all) generations.set(one, (await operator.get(one.requestId))?.generation ?? 0)
    await killAll()
    await watch.empty(schedule.now() + schedule.wallOffset)
    limits.onOtherStore('lost')
    ledger.forgetIds()
    told.length = 0
    api.isRememberingAll = true
    api.takesOtherBytes = true
    for (const one of ledger.all) {
      const isAlone = ledger.all.every((other) => other === one || other.hash !== one.hash)
      // What the lost file alone knew is lost with it: what was called without a key that tells, and higher generations,
      // which a refusal leads to where an API stores those.
      const isKeyed = tellsRepeats(one.kind) && one.kind !== 'stores'
      one.isGone ||= !(isAlone && isKeyed && generations.get(one) === 1)
    }
    for (const one of ledger.all.filter(({ isGone }) => !isGone).reverse()) {
      const { kind, payload, hash, orderingKey } = one
      const order = { target: kind, payload, logicalHash: hash, orderingKey: orderingKey ?? undefined }
      const { requestId } = await operator.enqueue(order)
      ledger.move(one, requestId)
      schedule.note(`enqueues ${one.name} again`)
    }
  }

  /** Everybody is stopped first, and whoever finds that the store was put back says so. */
  async function putBack(): Promise<void> {
    if (copy === null || isPutBack) return
    const rows = copy.get('task_state') as readonly { request_id: number; state: string }[]
    // What a person said since of a request that had ended is forgotten, and nobody can tell.
    const isReopened = rows.some(
      ({ request_id, state }) => ['dead', 'canceled'].includes(state) && watch.stateOf(request_id) !== state,
    )
    if (isReopened) return
    schedule.note('a copy is put back')
    isPutBack = true
    api.takesOtherBytes = true
    await killAll()
    await watch.putBack(copy)
    limits.onOtherStore('put back')
    // Whoever puts it back takes their time.
    await schedule.pass(chance.pick([50, 1600, 12_000]))
    // That the clock had been set back only the store that is gone may have known.
    if (isTimeLost()) setRight()
    told.length = 0
    const owed = [...rows, ...(copy.get('requests') ?? [])].map(
      (row) => row['request_id' as keyof typeof row] as number,
    )
    ledger.keepOnly(new Set(owed))
    if ((await operator.origin()).kind !== 'own') await operator.declareRestored()
    checkCertainty()
  }

  function pausedKinds(): readonly Kind[] {
    return watch.pausedTargets() as Kind[]
  }

  /** Of a time that was, and that the store does not know to be over. */
  function isTimeLost(): boolean {
    return offsets.some((offset) => offset - schedule.wallOffset - watch.clockAheadMs() > SPARED_SETBACK_MS)
  }

  async function jump(): Promise<void> {
    schedule.wallOffset += chance.pick([-600_000, -600_000, -12_000, -5000, -800, 800, 5000, 12_000, 600_000])
    offsets.push(schedule.wallOffset)
    furthestOffset = Math.max(furthestOffset, schedule.wallOffset)
    hasJumped = true
    schedule.note(`the wall clock jumps: it is ahead by ${schedule.wallOffset}`)
    for (let i = 0; i < SEEN_WITHIN && isTimeLost() && processes.alive().length > 0; i++) await goOn()
    if (isTimeLost()) setRight()
  }

  function setRight(): void {
    schedule.wallOffset = furthestOffset
    schedule.note('nobody knows that the clock was set back, and it is set right')
  }

  async function goOn(): Promise<void> {
    await schedule.settle()
    if (isCalm && processes.alive().length === 0) await processes.startWorker()
    if (!(await schedule.advance())) await schedule.pass(50)
    processes.check()
  }

  async function act(): Promise<void> {
    await schedule.settle()
    if (isRestless && asides.is(0.1)) await reorder()
    const alive = processes.alive()
    switch (chance.weigh(actions)) {
      case 'kill':
        return alive.length > 0 ? processes.kill(chance.pick(alive)) : undefined
      case 'stall':
        return alive.length > 0 ? processes.stall(chance.pick(alive)) : undefined
      case 'start':
        return processes.startWorker()
      case 'enqueue':
        return ledger.all.length < MAX_OWED ? enqueue() : undefined
      case 'speak':
        await speak({ operator, chance, schedule, api, ledger, limits, hasJumped })
        return checkCertainty()
      case 'deliver again':
        return deliverAgain()
      case 'pass time':
        return schedule.pass(chance.pick([50, 400, 1600, 5000, 12_000]))
      case 'purge':
        return purge()
      case 'lose the store':
        return loseTheStore()
      case 'copy the store':
        if (!isPutBack) copy = watch.copy()
        return
      case 'put the copy back':
        return putBack()
      case 'jump':
        return jump()
      case 'go on':
        return goOn()
    }
  }

  return {
    get crashes() {
      return processes.crashes
    },
    begin: async () => {
      schedule.note(`its limits: ${regime.name}`)
      operator = await processes.openOperator()
      for (let i = chance.below(3) + 1; i > 0; i--) await enqueue()
      await processes.startWorker()
      await processes.startWorker()
    },
    act,
    goOn,
    calm: async () => {
      isCalm = true
      api.isCalm = true
      processes.calm()
      machine.ground.calm()
      // Somebody sets the clocks right: none is behind what the store has seen.
      schedule.wallOffset = furthestOffset
      // Where there are limits, what ends by itself must.
      await resume(isLimited ? pausedKinds() : KINDS, operator, limits)
      schedule.note('calm')
    },
    isIdle: async () => {
      await schedule.settle()
      // A refusal of the credentials may have been on its way still.
      if (isCalm) await resume(pausedKinds(), operator, limits)
      return watch.isOver()
    },
    isFull: () => ledger.all.length >= MAX_OWED,
    violations: async () => {
      const rows = await Promise.all(
        ledger.all.map(async (one) => ({
          one,
          row: one.isGone ? null : await machine.ground.store.get(one.requestId),
        })),
      )
      return [...found, ...watch.forbidden(), ...violationsOf(rows, api)]
    },
    end: () => processes.end(),
  }
}
