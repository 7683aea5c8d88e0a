// (c) What a turn of 16 settlements and 16 claims takes, whatever else the store holds: against one that holds a thousand ready
// requests and nothing else. Compared by CPU time, which neither the disk nor a neighbour on the machine blurs; how long a turn
// lasts, its sync included, is told beside it.
import { copyFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { analyze, checkFill, type Fill, fillStore, targetsOf } from '../filled-store.ts'
import { inTurn, quantile, ratios } from '../rounds.ts'
import type { Aim, Bench, Scenario } from '../scenario.ts'
import { type DrivenStore, driveStore } from '../turns.ts'

interface Setting extends Fill {
  readonly name: string
  readonly isAnalyzed?: boolean
  /** The setting whose file is copied, since it holds the same. */
  readonly sameAs?: string
  readonly aim?: Aim
}

const SLOTS = 16
const TURNS = { quick: 50, full: 100, huge: 100 }
/** The smallest stores must not run dry: they are filled up after so many. */
const TURNS_AT_ONCE = 25
const SMALL = 10_000
const FLAT = { atMost: 1.5 }
/** Where each turn looks at many targets, or each settlement passes an ordering key's turn on as well. */
const SPREAD = { atMost: 2.5 }
const P99_MS = { atMost: 25 }

export const claim: Scenario = {
  name: 'claim',
  says: 'a turn of 16 settlements and 16 claims, at every backlog, against one of a thousand requests',
  run: async (bench) => {
    const settings = settingsOf(bench)
    const driven = new Map<string, Measured>()
    try {
      for (const setting of settings) driven.set(setting.name, await open(bench, setting))
      await measure(bench, settings, driven)
    } finally {
      for (const { store } of driven.values()) await store.close()
    }
  },
}

function settingsOf({ size }: Bench): readonly Setting[] {
  const many = size === 'quick' ? 100_000 : 1_000_000
  const keys = size === 'quick' ? 10_000 : 100_000
  const leased = size === 'quick' ? 5000 : 50_000
  const plain = { future: 0, priorities: 1, leased: 0 }
  const [thousand, big, later] = ['1,000', named(many), `${named(many)} future`]
  const full = { ...plain, ready: many, future: many }
  const settings: Setting[] = [
    { name: thousand, ...plain, ready: 1000 },
    { name: big, ...plain, ready: many },
    { name: `${thousand} + ${later}`, ...plain, ready: 1000, future: many },
    { name: `${big} + ${later}`, ...full, aim: FLAT },
    { name: `${big} + ${later}, after ANALYZE`, ...full, isAnalyzed: true, sameAs: `${big} + ${later}` },
    { name: `${big} + ${later}, 3 priorities`, ...full, priorities: 3 },
    { name: `${big} + ${later}, 1,000 priorities`, ...full, priorities: 1000 },
    { name: `${big} + ${later}, ${named(leased)} leased`, ...full, leased },
    { name: `${big} of 1,000 targets`, ...plain, ready: many, targets: 1000, aim: SPREAD },
    { name: `${big} of 1,000 groups`, ...plain, ready: many, groups: 1000, aim: SPREAD },
    { name: `${big} of ${named(keys)} ordering keys`, ...plain, ready: many, keys, aim: SPREAD },
  ]
  if (size !== 'quick') settings.splice(1, 0, { name: '100,000', ...plain, ready: 100_000 })
  if (size === 'huge') settings.push({ name: `10,000,000 + ${later}`, ...full, ready: 10_000_000, aim: FLAT })
  return settings
}

function named(count: number): string {
  return count.toLocaleString('en')
}

interface Measured {
  readonly setting: Setting
  readonly store: DrivenStore
  /** How long the turns of each round lasted, ms. */
  readonly rounds: number[][]
}

async function open(bench: Bench, setting: Setting): Promise<Measured> {
  const startedAt = performance.now()
  const path = pathOf(bench, setting.name)
  if (setting.sameAs === undefined) await fillStore(path, setting)
  else copyFileSync(pathOf(bench, `${setting.sameAs} as filled`), path)
  // Once it is driven, a file is no copy to begin with any more.
  if (setting.aim !== undefined) copyFileSync(path, pathOf(bench, `${setting.name} as filled`))
  if (setting.isAnalyzed === true) analyze(path)
  const store = await driveStore({ path, targets: targetsOf(setting) })
  await checkFill(store.store, setting)
  const seconds = Math.round((performance.now() - startedAt) / 1000)
  bench.say(`  ${setting.name}: ${Math.round(statSync(path).size / 2 ** 20)} MiB, filled in ${seconds} s`)
  return { setting, store, rounds: [] }
}

function pathOf(bench: Bench, name: string): string {
  return join(bench.folder, `${name.replaceAll(/\W+/g, '-')}.db`)
}

async function measure(
  bench: Bench,
  settings: readonly Setting[],
  driven: ReadonlyMap<string, Measured>,
): Promise<void> {
  const arms = Object.fromEntries(
    [...driven].map(([name, measured]) => [name, () => takeTurns(measured, TURNS[bench.size])]),
  )
  // Code is compiled and caches are filled before the first round.
  for (const warm of Object.values(arms)) await warm()
  for (const { rounds } of driven.values()) rounds.length = 0
  const cpuMs = await inTurn(bench.rounds, arms)
  const least = cpuMs[settings[0]?.name ?? ''] ?? []
  for (const { name, aim } of settings) {
    const values = cpuMs[name] ?? []
    const figure = { name: `${name}: p50`, unit: 'of 1,000', values: ratios(values, least) }
    if (values !== least) bench.figure(aim === undefined ? figure : { ...figure, aim })
    bench.figure({ name: `${name}: p50`, unit: 'ms of CPU', values })
    const lasted = (share: number) => (driven.get(name)?.rounds ?? []).map((times) => quantile(times, share))
    bench.figure({ name: `${name}: p50 with the sync`, unit: 'ms', values: lasted(0.5) })
    bench.figure({ name: `${name}: p99 with the sync`, unit: 'ms', values: lasted(0.99), aim: P99_MS })
  }
}

/** @returns the p50 of its turns, ms of CPU. */
async function takeTurns({ setting, store, rounds }: Measured, turns: number): Promise<number> {
  const lasted: number[] = []
  const busy: number[] = []
  while (lasted.length < turns) {
    for (let i = 0; i < TURNS_AT_ONCE; i++) {
      const startedAt = performance.now()
      const cpu = process.cpuUsage()
      await store.turn(SLOTS)
      const { user, system } = process.cpuUsage(cpu)
      busy.push((user + system) / 1000)
      lasted.push(performance.now() - startedAt)
    }
    if (setting.ready < SMALL) await store.enqueue(TURNS_AT_ONCE * SLOTS)
  }
  rounds.push(lasted)
  return quantile(busy, 0.5)
}
