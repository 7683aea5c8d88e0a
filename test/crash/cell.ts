// One cell of the matrix: a request is brought to where the point lies, a process is really killed there, another comes after
// it. What is told is what can be seen from outside: at the API, in the store, of the files beside it.
import { rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { RequestState } from '../../src/core/task-state.ts'
import type { Onceish } from '../../src/index.ts'
import type { RequestDetail } from '../../src/store/views.ts'
import { type FakeApi, openForTest, type VirtualClock, virtualClock } from '../../src/testing.ts'
import { deathOf } from '../support/children.ts'
import { openFakeApi } from '../support/counting-api.ts'
import { newLocation } from '../support/engine.ts'
import { putBack } from '../support/store-files.ts'
import type { End, FirstTurn, Point, Restart } from './expected.ts'
import { configOf, type Kind, LEASE_MS, type RawConfig, REMEMBERED_MS } from './kinds.ts'
import { turnBackToVersion1 } from './older-file.ts'

const START = Date.UTC(2030, 0, 1)
const A_MOMENT_MS = 1000
const PAYLOAD = { video: 'a' }
const HORIZON_MS = 2 * LEASE_MS
/** Of the clock in a drain: small beside a lease, large beside the wait between two lookups. */
const STEP_MS = 5000

export interface Cell {
  readonly kind: Kind
  readonly point: Point
  readonly api: FakeApi
  readonly store: string
  readonly config: RawConfig
  /** The API's and the restarted process's. */
  readonly clock: VirtualClock
}

/** To be called in a test: its API closes with it. */
export async function openCell(kind: Kind, point: Point, folder: string): Promise<Cell> {
  const clock = virtualClock({ startAt: START })
  const api = await openFakeApi({ kind, clock, rememberedForMs: REMEMBERED_MS })
  const store = newLocation(() => join(folder, `${kind}.db`))
  return { kind, point, api, store, config: configOf(kind, api, store), clock }
}

/** What a person, or nobody, has to do before the point can be reached; one process that dies for all cells of it. */
export async function prepare(cells: readonly Cell[], point: Point): Promise<void> {
  if (isRestore(point)) for (const cell of cells) await restoreCopy(cell)
  const [doubtAt] = PRELUDES[point] ?? []
  if (doubtAt === undefined) return
  const configs = cells.map(({ config }) => config)
  const signal = await deathOf(new URL('./bring-into-doubt.mjs', import.meta.url), {
    configs,
    at: START,
    point: doubtAt,
    payload: PAYLOAD,
  })
  if (signal !== 'SIGKILL') throw new Error(`no request was brought into doubt: the process ended by ${signal}`)
  for (const cell of cells) await PRELUDES[point]?.[1]?.(cell)
}

type Prelude = readonly [doubtAt: Point, then?: (cell: Cell) => Promise<void> | void]

const PRELUDES: Partial<Readonly<Record<Point, Prelude>>> = {
  'lookup:answered': ['call:answered', endLease],
  'sweep:before-commit': ['call:answered', endLease],
  'sweep:after-commit': ['call:answered', endLease],
  'resolve:before-commit': ['call:before-write', endUpHeld],
  'resolve:after-commit': ['call:before-write', endUpHeld],
  'migrate:before-commit': ['call:answered', ({ store }) => turnBackToVersion1(store)],
  'migrate:after-commit': ['call:answered', ({ store }) => turnBackToVersion1(store)],
  'backup:copying': ['call:answered'],
  'backup:before-commit': ['call:answered'],
  'backup:after-commit': ['call:answered'],
}

const isRestore = (point: Point) => point.startsWith('restore:')

/** A copy that was taken before the request was called takes the place of the store. */
async function restoreCopy(cell: Cell): Promise<void> {
  const copy = backupOf(cell)
  await withStore(cell, async (once) => {
    await once.enqueue({ target: cell.kind, payload: PAYLOAD })
    await once.backup(copy)
    await drain(cell, once)
  })
  putBack(copy, cell.store)
  rmSync(copy)
}

function endLease({ clock }: Cell): void {
  clock.advance(LEASE_MS + A_MOMENT_MS)
}

/** Beyond the window no kind has a way out of doubt. */
async function endUpHeld(cell: Cell): Promise<void> {
  cell.clock.advance(REMEMBERED_MS + LEASE_MS)
  await withStore(cell, (once) => drain(cell, once))
}

/** @returns what ended the process that went to the point. */
export function kill(cell: Cell): Promise<NodeJS.Signals | null> {
  const { config, clock, point } = cell
  const order = { config, at: clock.wallNow(), point, deed: deedOf(point), payload: PAYLOAD, backupTo: backupOf(cell) }
  return deathOf(new URL('./die-at.mjs', import.meta.url), order)
}

function deedOf(point: Point): string {
  const [of = ''] = point.split(':')
  const deeds: Readonly<Record<string, string>> = {
    lookup: 'recover',
    sweep: 'recover',
    migrate: 'open',
    restore: 'restored',
  }
  return deeds[of] ?? (['resolve', 'purge', 'backup'].includes(of) ? of : 'submit')
}

export function backupOf({ store }: Cell): string {
  return join(dirname(store), `copy-of-${store.split('/').at(-1)}`)
}

/** What another process finds, and what it comes to. */
export interface Ending extends End {
  /** Null: no such request. */
  readonly found: RequestState | null
  /** Of a restart at once: what a first turn has done of it while the clock stood. */
  readonly firstTurn: FirstTurn | null
  readonly wrong: readonly string[]
}

export async function restart(cell: Cell, when: Restart): Promise<Ending> {
  const { api, clock, point } = cell
  const callsBefore = api.calls.length
  if (when === 'after the lease') endLease(cell)
  if (when === 'after the window') clock.advance(REMEMBERED_MS + LEASE_MS)
  return withStore(cell, async (once) => {
    const found = await once.get(1)
    if (isRestore(point)) await once.declareRestored()
    const firstTurn = when === 'at once' && !isRestore(point) ? await turnOnce(cell, once, callsBefore) : null
    if (when === 'at once') endLease(cell)
    await drain(cell, once)
    const row = await once.get(1)
    return {
      found: found?.state ?? null,
      firstTurn,
      state: row?.state ?? null,
      reason: row?.reason ?? null,
      effects: api.effects.length,
      calls: api.calls.length - callsBefore,
      story: storySince(found, row),
      wrong: [
        ...wrongCalls(cell, row),
        ...wrongEnd(cell, row),
        ...(await wrongDedupe(cell, once, row)),
        ...(point.startsWith('backup') ? await wrongBackup(cell, once) : []),
      ],
    }
  })
}

async function withStore<T>(cell: Cell, work: (once: Onceish) => Promise<T>): Promise<T> {
  const once = await openForTest({ config: cell.config, clock: cell.clock })
  try {
    return await work(once)
  } finally {
    await once.close()
  }
}

function drain({ clock }: Cell, once: Onceish): Promise<unknown> {
  return clock.runUntil(once.startWorker({ drain: { horizonMs: HORIZON_MS } }).done, { stepMs: STEP_MS })
}

/** One turn and the calls that it starts. */
async function turnOnce({ api }: Cell, once: Onceish, callsBefore: number): Promise<FirstTurn> {
  await new Promise<void>((resolve, reject) => {
    const worker = once.startWorker({ onProgress: () => void worker.stop() })
    worker.done.then(() => resolve(), reject)
  })
  return { state: (await once.get(1))?.state ?? null, calls: api.calls.length - callsBefore }
}

function storySince(before: RequestDetail | null, now: RequestDetail | null): string[] {
  const lastSeen = before?.events.at(-1)?.eventId ?? 0
  const since = (now?.events ?? []).filter(({ eventId, kind }) => eventId > lastSeen && kind !== 'asked_later')
  return since.map(({ kind, reason }) => `${kind}: ${reason}`)
}

function wrongCalls({ api }: Cell, row: RequestDetail | null): string[] {
  const [first] = api.calls
  const isSame = api.calls.every(({ url, body, key }) => url === first?.url && body === first.body && key === first.key)
  const isOnRecord = first === undefined || row === null || row.taskState?.idempotencyKey === first.key
  return [
    ...(isSame ? [] : ['a repeat differs from the first call']),
    ...(isOnRecord ? [] : ['the key is not on record']),
  ]
}

/** A person needs the call as it was frozen, the attempt that may have happened, and why nobody else can know. */
function wrongEnd({ api }: Cell, row: RequestDetail | null): string[] {
  if (row?.state === 'submitted') return row.taskId === api.effects[0]?.id ? [] : [`${row.taskId} is not what was made`]
  if (row?.state !== 'held') return []
  const isInDoubt = row.taskState?.doubtfulAttempts.includes(row.attempt) === true
  const isTold = row.events.some(({ kind, reason }) => kind === 'held' && reason === row.reason)
  return isInDoubt && isTold && row.prepared?.url.startsWith(api.url) ? [] : ['held without its evidence']
}

async function wrongDedupe({ kind }: Cell, once: Onceish, row: RequestDetail | null): Promise<string[]> {
  const { deduplicated, requestId } = await once.enqueue({ target: kind, payload: PAYLOAD })
  const isNew = !deduplicated && (row === null || requestId !== row.requestId)
  return isNew === (row === null) ? [] : ['the same payload is not the same request']
}

/** A name that was given stays with its copy; one that was not is free. */
async function wrongBackup(cell: Cell, once: Onceish): Promise<string[]> {
  const code = await once.backup(backupOf(cell)).then(
    () => 'made',
    (error) => (error as { code?: string }).code,
  )
  const expected = cell.point === 'backup:after-commit' ? 'FILE_EXISTS' : 'made'
  return code === expected ? [] : [`a backup to the same name: ${code}`]
}
