// Two workers and a producer on one store, all of them killed again and again, an API that fails on its own; then peace, and
// every promise asked of the truth. What a seed decides is played again by it, what the machine's own timing decides is not.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isShared } from '../../src/core/store-address.ts'
import { createChance } from '../simulation/chance.ts'
import { type Api, configFor, oracleAtRest, startApi } from '../support/api.ts'
import { waitFor } from '../support/wait-for.ts'
import { violationsOf } from './invariants.ts'
import { loadBuilt } from './library.ts'
import { nextKill, type PlannedKill } from './plan.ts'
import { type Supervised, supervise } from './supervise.ts'
import { readTables, type Tables } from './tables.ts'

const CLI = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const RUN_SCRIPT = fileURLToPath(new URL('../support/run-script.mjs', import.meta.url))
const PRODUCER = fileURLToPath(new URL('./producer.ts', import.meta.url))
/** What a busy machine needs is no finding; what never comes is. */
const PATIENCE_MS = 120_000
/** Of the list behind what has happened: longer than the misses take that a lookup must not believe. */
const LAG_MS = 1000
/** Covers the lag, what lands late, and a machine that falls behind. */
const SETTLE_MS = 3000

export interface Progress {
  readonly requests: number
  readonly kills: number
  readonly calls: number
}

export interface TortureOptions {
  readonly seed: number
  /** Gets the config and what the processes say. */
  readonly folder: string
  /** Of a store that is not there yet. */
  readonly store: string
  /** Asked before each kill: whether it was enough. */
  readonly isEnough: (progress: Progress) => boolean
  readonly onProgress?: (progress: Progress) => void
}

export interface Tortured extends Progress {
  readonly replays: number
  readonly adopted: number
  readonly held: number
  readonly duplicates: number
  readonly states: Readonly<Record<string, number>>
  readonly violations: readonly string[]
}

export async function torture({ seed, folder, store, isEnough, onProgress }: TortureOptions): Promise<Tortured> {
  const api = await startApi({ settings: { lagMs: LAG_MS } })
  const config = join(folder, 'onceish.config.json')
  const given = { ...configOf(api.origin), store }
  writeFileSync(config, JSON.stringify(given))
  // On a server a worker makes none.
  if (isShared(store)) await makeStore(given)
  const acknowledged = new Map<number, number>()
  const cast = startCast({ folder, config, seed, acknowledged })
  const all = Object.values(cast)
  const isBroken = () => all.some(({ wrong }) => wrong.length > 0)
  let kills = 0
  let calls = 0
  const progress = () => ({ requests: acknowledged.size, kills, calls })
  try {
    const chance = createChance(seed)
    while (!isBroken() && !isEnough(progress())) {
      const planned = nextKill(chance)
      calls = await waitForCalls(api, calls + planned.afterCalls, isBroken)
      await delay(planned.afterMs)
      const died = await Promise.all(victimsOf(cast, planned).map((victim) => victim.kill(planned.restMs)))
      kills += died.filter(Boolean).length
      onProgress?.(progress())
    }
    await cast.producer.end()
    await Promise.all([cast['worker 1'].end('SIGTERM'), cast['worker 2'].end('SIGTERM')])
    const drained = await drainInPeace(folder)
    const oracle = await oracleAtRest(api, PATIENCE_MS)
    const tables = await readTables(store)
    const violations = [
      ...all.flatMap(({ wrong }) => wrong),
      ...drained,
      ...violationsOf({ acknowledged, oracle, tables }),
    ]
    const duplicates = oracle.effects.length - new Set(oracle.effects.map(({ n }) => n)).size
    return { ...progress(), calls: oracle.calls.length, duplicates, ...countsOf(tables), violations }
  } finally {
    await Promise.all(all.map((one) => one.end('SIGKILL')))
    await api.stop()
  }
}

async function makeStore(config: Record<string, unknown>): Promise<void> {
  const { openOnceish } = await loadBuilt()
  await (await openOnceish({ config })).close()
}

/** Times as short as safety allows. */
function configOf(origin: string) {
  const retry = { maxAttempts: 40, initialMs: 50, maxMs: 400 }
  // One call in a few is told to wait for a second, which is to be met often and not for long.
  const rateLimit = { rampMs: 400 }
  return configFor(origin, {
    worker: { concurrency: 16, leaseMs: 1600, graceMs: 2000 },
    targets: {
      executions: { retry, rateLimit },
      renders: { retry, rateLimit },
      parcels: { retry, rateLimit, lookup: { settleMs: SETTLE_MS } },
      messages: { retry, rateLimit },
    },
  })
}

type Cast = Readonly<Record<'worker 1' | 'worker 2' | 'producer', Supervised>>

interface Stage {
  readonly folder: string
  readonly config: string
  readonly seed: number
  readonly acknowledged: Map<number, number>
}

function startCast({ folder, config, seed, acknowledged }: Stage): Cast {
  // Asked to end before it listens to that, it ends at once.
  const worker = (name: string) => supervise({ name, folder, args: () => [CLI, 'work'], endsWith: [143, 'SIGTERM'] })
  const isTold = readLines((line) => {
    const { n, requestId } = JSON.parse(line) as { n: number; requestId: number }
    acknowledged.set(n, requestId)
  })
  const producer = supervise({
    name: 'producer',
    folder,
    // Requests that were not acknowledged are asked for again: they may be there or not.
    args: () => [RUN_SCRIPT, PRODUCER, config, String(seed), String(acknowledged.size)],
    onStart: isTold.forget,
    onStdout: isTold.take,
    endsWith: [0],
  })
  return { 'worker 1': worker('worker 1'), 'worker 2': worker('worker 2'), producer }
}

/** Whole lines of a text that comes in pieces; a piece whose writer has died is no line. */
function readLines(onLine: (line: string) => void) {
  let rest = ''
  return {
    take: (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) onLine(line)
    },
    forget: () => {
      rest = ''
    },
  }
}

function victimsOf(cast: Cast, { victim }: PlannedKill): readonly Supervised[] {
  return victim === 'both workers' ? [cast['worker 1'], cast['worker 2']] : [cast[victim]]
}

/** @returns how many there are by then; fewer where nothing more is to be expected. */
async function waitForCalls(api: Api, atLeast: number, isBroken: () => boolean): Promise<number> {
  const count = async () => {
    const calls = Object.values(await api.summary()).reduce((sum, kind) => sum + kind.calls, 0)
    return isBroken() || calls >= atLeast ? { calls } : null
  }
  return (await waitFor(count, { what: `call ${atLeast}`, timeoutMs: PATIENCE_MS })).calls
}

/** @returns what is wrong with how it ended: held rows are not. */
async function drainInPeace(folder: string): Promise<string[]> {
  const child = spawn(process.execPath, [CLI, 'work', '--drain'], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
  let words = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    words = (words + text).slice(-2000)
  })
  const tooLong = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS)
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
  clearTimeout(tooLong)
  return code === 0 || code === 3 ? [] : [`the last drain ended with ${code ?? signal}: ${words}`]
}

function countsOf({ rows }: Tables): Pick<Tortured, 'replays' | 'adopted' | 'held' | 'states'> {
  const events = rows.flatMap((row) => row.events)
  const states: Record<string, number> = {}
  for (const { state } of rows) states[state] = (states[state] ?? 0) + 1
  return {
    replays: events.filter(({ kind }) => kind === 'replay').length,
    adopted: events.filter(({ kind, reason }) => kind === 'submitted' && reason === 'lookup').length,
    held: states['held'] ?? 0,
    states,
  }
}
