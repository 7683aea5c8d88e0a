// (b) The protocol without HTTP: the product's store in turns against the textbook's two transactions a request. Both sync
// every commit. How long a turn holds the event loop by itself is told by the CPU time that the process spends in it: waiting
// for the disk takes none, nor does a neighbour on the machine; what other threads spend meanwhile is counted with it.
import { join } from 'node:path'
import { inTurn, quantile, ratios } from '../rounds.ts'
import type { Aim, Bench, Figure, Scenario } from '../scenario.ts'
import { openTextbook, type Textbook } from '../textbook.ts'
import { type DrivenStore, driveStore } from '../turns.ts'

interface Setting {
  readonly slots: number
  readonly aim?: Aim
  readonly blockAim?: Aim
}

const SETTINGS: readonly Setting[] = [
  { slots: 16 },
  { slots: 64, aim: { atLeast: 20 }, blockAim: { atMost: 5 } },
  { slots: 256 },
]

/** Ready when a round begins; a round drains a part of them, and as many come after it. */
const BACKLOG = 20_000

/** CPU us a request of each round. */
interface Spent {
  readonly cpuUs: number[]
}

interface Sizes {
  readonly ours: number
  readonly textbook: number
}

export const protocol: Scenario = {
  name: 'protocol',
  says: 'the protocol without HTTP, in turns of 16, 64 and 256, against two transactions a request',
  run: async (bench) => {
    const sizes = bench.size === 'quick' ? { ours: 4096, textbook: 400 } : { ours: 16_384, textbook: 2000 }
    const textbook = openTextbook(join(bench.folder, 'textbook.db'))
    textbook.enqueue(BACKLOG)
    const driven = await Promise.all(SETTINGS.map(({ slots }) => openDriven(join(bench.folder, `turns-${slots}.db`))))
    try {
      await measure(bench, sizes, textbook, driven)
    } finally {
      textbook.close()
      for (const { store } of driven) await store.close()
    }
  },
}

interface Driven extends Spent {
  readonly store: DrivenStore
  /** Of the turns of each round, ms. */
  readonly busyMs: number[][]
  readonly wallMs: number[][]
}

async function openDriven(path: string): Promise<Driven> {
  const store = await driveStore({ path })
  await store.enqueue(BACKLOG)
  return { store, busyMs: [], wallMs: [], cpuUs: [] }
}

async function measure(bench: Bench, sizes: Sizes, textbook: Textbook, driven: readonly Driven[]): Promise<void> {
  const spent: Spent = { cpuUs: [] }
  const turns = SETTINGS.map(({ slots }, i) => [String(slots), () => drain(driven[i] as Driven, slots, sizes.ours)])
  const arms = { textbook: () => submit(textbook, sizes.textbook, spent), ...Object.fromEntries(turns) } as Record<
    string,
    () => number | Promise<number>
  >
  // Code is compiled before the first round.
  for (const warm of Object.values(arms)) await warm()
  for (const { busyMs, wallMs, cpuUs } of driven) busyMs.length = wallMs.length = cpuUs.length = 0
  spent.cpuUs.length = 0
  const measured = await inTurn(bench.rounds, arms)
  const byTextbook = measured['textbook'] ?? []
  bench.figure({ name: 'two transactions a request', unit: 'requests/s', values: byTextbook })
  bench.figure({ name: 'two transactions a request: CPU', unit: 'us a request', values: spent.cpuUs })
  for (const [i, { slots, aim, blockAim }] of SETTINGS.entries()) {
    const { busyMs, wallMs, cpuUs } = driven[i] as Driven
    const values = measured[slots] ?? []
    const figure = (told: Omit<Figure, 'aim'>, aimed?: Aim) =>
      bench.figure(aimed === undefined ? told : { ...told, aim: aimed })
    figure({ name: `${slots} a turn`, unit: 'of the textbook', values: ratios(values, byTextbook) }, aim)
    figure({ name: `${slots} a turn: requests`, unit: 'requests/s', values })
    figure({ name: `${slots} a turn: CPU`, unit: 'us a request', values: cpuUs })
    figure({ name: `${slots} a turn: its work, p50`, unit: 'ms of CPU', values: shareOf(busyMs, 0.5) }, blockAim)
    figure({ name: `${slots} a turn: with the sync, p50`, unit: 'ms', values: shareOf(wallMs, 0.5) })
    figure({ name: `${slots} a turn: with the sync, p99`, unit: 'ms', values: shareOf(wallMs, 0.99) })
  }
}

function shareOf(rounds: readonly number[][], share: number): number[] {
  return rounds.map((times) => quantile(times, share))
}

/** @returns requests a second. */
async function drain({ store, busyMs, wallMs, cpuUs }: Driven, slots: number, requests: number): Promise<number> {
  const busy: number[] = []
  const wall: number[] = []
  const startedAt = performance.now()
  for (let settled = 0; settled < requests; ) {
    const turnAt = performance.now()
    const cpu = process.cpuUsage()
    settled += await store.turn(Math.min(slots, requests - settled))
    const { user, system } = process.cpuUsage(cpu)
    busy.push((user + system) / 1000)
    wall.push(performance.now() - turnAt)
  }
  const seconds = (performance.now() - startedAt) / 1000
  cpuUs.push((busy.reduce((sum, ms) => sum + ms, 0) * 1000) / requests)
  busyMs.push(busy)
  wallMs.push(wall)
  await store.enqueue(requests)
  return requests / seconds
}

/** @returns requests a second. */
function submit(textbook: Textbook, requests: number, { cpuUs }: Spent): number {
  const startedAt = performance.now()
  const cpu = process.cpuUsage()
  for (let i = 0; i < requests; i++) textbook.submitOne()
  const seconds = (performance.now() - startedAt) / 1000
  const { user, system } = process.cpuUsage(cpu)
  cpuUs.push((user + system) / requests)
  textbook.enqueue(requests)
  return requests / seconds
}
