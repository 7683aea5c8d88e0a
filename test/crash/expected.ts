// What must be true after a kill, as a table to be read beside the promise (README, "What is promised"). Pure.

import type { RequestState } from '../../src/core/task-state.ts'
import { SCHEMA_VERSION } from '../../src/store/sqlite/migrate.ts'
import { CRASH_POINTS, type CrashPoint } from '../../src/testing.ts'
import type { Files } from './files.ts'
import type { Kind } from './kinds.ts'

/** The product's points, and one inside SQLite's own work. */
export const POINTS = [...CRASH_POINTS, 'backup:copying'] as const
export type Point = CrashPoint | 'backup:copying'

export const RESTARTS = ['at once', 'after the lease', 'after the window'] as const
export type Restart = (typeof RESTARTS)[number]

/** A point that the kind has. Only what can be asked answers: of the four kinds, the one that is looked up. */
export function hasPoint(kind: Kind, point: Point): boolean {
  return point !== 'lookup:answered' || kind === 'lookup'
}

/** What the dead process has left: the truth at the API, and what the store can know of it. */
export type Left =
  | { readonly as: 'nothing' | 'submitted' | 'purged' }
  /** `story`: what the time line keeps of a submission. Of the plain happy path it keeps nothing. */
  | { readonly as: 'queued'; readonly story: readonly string[] }
  | { readonly as: 'held'; readonly effects: 0 | 1 }
  /** A copy of a ready request that was submitted since: called once, which the store has forgotten. */
  | { readonly as: 'forgotten'; readonly found: 'ready' | 'unknown' }
  | Doubt

interface Doubt {
  readonly as: 'doubt'
  readonly effects: 0 | 1
  /** Whose lease the dead process took with it. */
  readonly under: 'call lease' | 'check lease'
}

const IN_CALL = { as: 'doubt', under: 'call lease' } as const
const IN_CHECK = { as: 'doubt', effects: 1, under: 'check lease' } as const
const QUEUED = { as: 'queued', story: [] } as const
const SUBMITTED = { as: 'submitted' } as const

const LEFT: Readonly<Record<Point, Left | ((kind: Kind) => Left)>> = {
  'enqueue:before-commit': { as: 'nothing' },
  'enqueue:after-commit': QUEUED,
  'claim:before-commit': QUEUED,
  // From this commit on a call may have left, for all that anybody else can know.
  'claim:after-commit': { ...IN_CALL, effects: 0 },
  'call:before-write': { ...IN_CALL, effects: 0 },
  'call:answered': { ...IN_CALL, effects: 1 },
  'settle:before-commit': { ...IN_CALL, effects: 1 },
  'settle:after-commit': SUBMITTED,
  // Of a request that call:answered has left in doubt, and whose lease is over:
  'lookup:answered': IN_CHECK,
  'sweep:before-commit': IN_CHECK,
  'sweep:after-commit': (kind) => SWEPT[kind],
  // Of a request that is held without effect, and of which a person says so:
  'resolve:before-commit': { as: 'held', effects: 0 },
  'resolve:after-commit': { as: 'queued', story: ['submitted: answer'] },
  // Of a submitted one:
  'purge:before-commit': SUBMITTED,
  'purge:after-commit': { as: 'purged' },
  // Of a copy that was put back; the word is said again after the kill.
  'restore:before-commit': { as: 'forgotten', found: 'ready' },
  'restore:after-commit': { as: 'forgotten', found: 'unknown' },
  // Of a request that call:answered has left in doubt: neither changes anything of it.
  'migrate:before-commit': { ...IN_CALL, effects: 1 },
  'migrate:after-commit': { ...IN_CALL, effects: 1 },
  'backup:copying': { ...IN_CALL, effects: 1 },
  'backup:before-commit': { ...IN_CALL, effects: 1 },
  'backup:after-commit': { ...IN_CALL, effects: 1 },
}

const SWEPT: Readonly<Record<Kind, Left>> = {
  // The replay is permitted and claimed, and was not sent.
  'client-id': { ...IN_CALL, effects: 1 },
  keyed: { ...IN_CALL, effects: 1 },
  lookup: SUBMITTED,
  opaque: { as: 'held', effects: 1 },
}

export function leftAt(point: Point, kind: Kind): Left {
  const left = LEFT[point]
  return typeof left === 'function' ? left(kind) : left
}

export function filesAt(point: Point): Files {
  return {
    // A migration is there whole or not at all, and so is a copy.
    schemaVersion: point === 'migrate:before-commit' ? 1 : SCHEMA_VERSION,
    isWhole: true,
    copy: point === 'backup:after-commit' ? 'invoking' : null,
  }
}

/** The state in which another process finds the request; null: not at all. */
export function foundAs(left: Left): RequestState | null {
  switch (left.as) {
    case 'nothing':
    case 'purged':
      return null
    case 'queued':
      return 'ready'
    case 'submitted':
    case 'held':
      return left.as
    case 'forgotten':
      return left.found
    case 'doubt':
      return left.under === 'call lease' ? 'invoking' : 'unknown'
  }
}

/** What one turn does while no time passes. */
export interface FirstTurn {
  readonly state: RequestState | null
  readonly calls: number
}

/** Whoever is dead keeps its leases until they end: what is in doubt is not touched before. */
export function firstTurnOf(left: Left, end: End, restart: Restart): FirstTurn | null {
  if (restart !== 'at once' || left.as === 'forgotten') return null
  return left.as === 'doubt' ? { state: foundAs(left), calls: 0 } : { state: end.state, calls: end.calls }
}

/** How it ends when work goes on in peace. */
export interface End {
  /** Null: there is no such request. */
  readonly state: RequestState | null
  readonly reason: string | null
  /** In all, counted at the API. */
  readonly effects: number
  /** That arrived at the API since the restart. */
  readonly calls: number
  /** What the time line says since the restart, but for waiting. */
  readonly story: readonly string[]
}

export function endOf(left: Left, kind: Kind, restart: Restart): End {
  switch (left.as) {
    case 'nothing':
      return { state: null, reason: null, effects: 0, calls: 0, story: [] }
    case 'queued':
      return { state: 'submitted', reason: null, effects: 1, calls: 1, story: left.story }
    case 'submitted':
      return { state: 'submitted', reason: null, effects: 1, calls: 0, story: [] }
    case 'purged':
      return { state: null, reason: null, effects: 1, calls: 0, story: [] }
    case 'held':
      return { state: 'held', reason: HELD_FOR[kind], effects: left.effects, calls: 0, story: [] }
    case 'forgotten':
      return endOfDoubt({ effects: 1, began: 'restored' }, kind, restart)
    case 'doubt':
      return endOfDoubt(
        { effects: left.effects, began: left.under === 'call lease' ? 'lease_expired' : null },
        kind,
        restart,
      )
  }
}

/** Why each kind is held where its own way out is closed. */
const HELD_FOR: Readonly<Record<Kind, string>> = {
  'client-id': 'key_window_closed',
  keyed: 'key_window_closed',
  lookup: 'lookup_memory_over',
  opaque: 'opaque',
}

/** Never a blind second call: a replay inside the window, a call after settled misses inside the memory, else a person's. */
function endOfDoubt(
  { effects, began }: { effects: 0 | 1; began: 'lease_expired' | 'restored' | null },
  kind: Kind,
  restart: Restart,
): End {
  const noticed = began === null ? [] : [`unknown: ${began}`]
  const isLate = restart === 'after the window'
  const heldFor = kind === 'opaque' && began === 'restored' ? began : HELD_FOR[kind]
  const ends = {
    held: { state: 'held', reason: heldFor, effects, calls: 0, story: [`held: ${heldFor}`] },
    replayed: {
      state: 'submitted',
      reason: null,
      effects: 1,
      calls: 1,
      story: [`replay: ${began ?? 'lease_expired'}`, 'submitted: answer'],
    },
    adopted: { state: 'submitted', reason: null, effects, calls: 0, story: ['submitted: lookup'] },
    recalled: {
      state: 'submitted',
      reason: null,
      effects: 1,
      calls: 1,
      story: ['recall: settled_miss', 'submitted: answer'],
    },
  } as const
  const end = ends[wayOutOf(kind, effects, isLate)]
  return { ...end, story: [...noticed, ...end.story] }
}

function wayOutOf(kind: Kind, effects: 0 | 1, isLate: boolean): 'held' | 'replayed' | 'adopted' | 'recalled' {
  if (kind === 'opaque') return 'held'
  // What a lookup finds is ours however late it is; what it misses proves something only while it remembers.
  if (kind === 'lookup') return effects === 1 ? 'adopted' : isLate ? 'held' : 'recalled'
  return isLate ? 'held' : 'replayed'
}
