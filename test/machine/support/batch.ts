// One request of each kind at the counting API, and what has become of them: the one table that every fault is judged by.
import { randomUUID } from 'node:crypto'
import { KINDS, type Kind } from '../../../fixtures/api/ledger.ts'
import type { Onceish } from '../../../src/index.ts'
import { type Api, oracleAtRest } from '../../support/api.ts'

export interface Batch {
  readonly numbers: Readonly<Record<Kind, string>>
  readonly ids: Readonly<Record<Kind, number>>
}

export interface Fate {
  readonly state: string | undefined
  readonly calls: number
  readonly effects: number
  /** Whether the stored task is the one that the API made. */
  readonly isTaskKnown: boolean
}

export type Fates = Readonly<Record<Kind, Fate>>

export async function enqueueBatch(once: Onceish, fault = 'none'): Promise<Batch> {
  const numbers = mapKinds(() => randomUUID())
  const enqueued = await once.enqueueMany(KINDS.map((target) => ({ target, payload: { n: numbers[target], fault } })))
  return { numbers, ids: mapKinds((kind) => enqueued[KINDS.indexOf(kind)]?.requestId ?? 0) }
}

/** Once the API is at rest. */
export async function fatesOf(api: Api, once: Onceish, { numbers, ids }: Batch): Promise<Fates> {
  const { calls, effects } = await oracleAtRest(api)
  const details = await Promise.all(KINDS.map((kind) => once.get(ids[kind])))
  return mapKinds((kind) => {
    const [effect, ...others] = effects.filter(({ n }) => n === numbers[kind])
    const detail = details[KINDS.indexOf(kind)]
    return {
      state: detail?.state,
      calls: calls.filter(({ n }) => n === numbers[kind]).length,
      effects: (effect === undefined ? 0 : 1) + others.length,
      isTaskKnown: effect !== undefined && detail?.taskId === effect.taskId,
    }
  })
}

export async function callsOf(api: Api, { numbers }: Batch): Promise<number> {
  const mine = new Set<unknown>(Object.values(numbers))
  return (await api.oracle()).calls.filter(({ n }) => mine.has(n)).length
}

function mapKinds<T>(make: (kind: Kind) => T): Readonly<Record<Kind, T>> {
  return Object.fromEntries(KINDS.map((kind) => [kind, make(kind)])) as Record<Kind, T>
}

/** Called once, done once, and known. */
export const DONE: Fate = { state: 'submitted', calls: 1, effects: 1, isTaskKnown: true }
export const ALL_DONE: Fates = mapKinds(() => DONE)
/** The same, but that nobody can tell. */
export const HELD: Fate = { ...DONE, state: 'held', isTaskKnown: false }
