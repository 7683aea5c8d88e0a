// Removes what has ended, a little at a time: a slice is read in id order, and what may go goes in one short transaction.
// Nothing is held between two steps, so that a worker beside it waits no longer than for a neighbour's turn.
import { ledgerHashOf } from '../../core/logical-hash.ts'
import type { EndedState } from '../../core/task-state.ts'
import { REMOVALS_A_STEP, SLICE_ROWS } from '../bounds.ts'
import type { KeptReason, PurgeBatch, PurgeScope, PurgeWord } from '../upkeep.ts'
import { noteTargetEvent } from './events.ts'
import { leaveLine } from './ordering.ts'
import { leaveQueue } from './queue.ts'
import { logicalHashOf, type StoredHash } from './rows.ts'
import type { Statements } from './statements.ts'

const BYTES_A_STEP = 8 * 1_048_576
const STEP_MS = 20

export interface SliceRow {
  readonly request_id: number
  readonly state: EndedState
  readonly is_purgeable: number
  readonly kept_for: KeptReason | null
}

export interface Slice {
  readonly rows: readonly SliceRow[]
  readonly highestId: number
  /** No row was left behind it. */
  readonly isLast: boolean
}

export function readSlice(sql: Statements, afterId: number, scope: PurgeScope): Slice {
  const found = sql.purgeSlice.all({ ...parametersOf(scope), after: afterId, limit: SLICE_ROWS }) as SliceRow[]
  return sliceOf(found, (sql.lastTaskStateId.get() as number | null) ?? 0)
}

/** As many of the rows that were found as one step removes. */
export function sliceOf(found: readonly SliceRow[], highestId: number): Slice {
  const rows = upToNth(found, REMOVALS_A_STEP)
  return { rows, highestId, isLast: rows.length === found.length && found.length < SLICE_ROWS }
}

function upToNth(rows: readonly SliceRow[], wanted: number): readonly SliceRow[] {
  let purgeable = 0
  const end = rows.findIndex((row) => row.is_purgeable === 1 && ++purgeable === wanted)
  return end === -1 ? rows : rows.slice(0, end + 1)
}

/** What the slice's rows would do; writes nothing. */
export function previewSlice(slice: Slice, afterId: number): PurgeBatch {
  const purged = slice.rows.filter((row) => row.is_purgeable === 1).map(({ state }) => state)
  return batchOf(slice, slice.rows, purged, afterId)
}

/** Call inside an IMMEDIATE transaction. */
export function purgeSlice(
  sql: Statements,
  slice: Slice,
  afterId: number,
  scope: PurgeScope,
  word: PurgeWord,
): PurgeBatch {
  const purged: PurgedRow[] = []
  const seen = untilSpent(slice.rows, (row) => {
    if (row.is_purgeable === 0) return 0
    const gone = purgeOne(sql, row.request_id, scope, word.now)
    if (gone !== null) purged.push(gone)
    return gone?.bytes ?? 0
  })
  if (purged.length > 0) noteBatch(sql, purged, word)
  const states = purged.map(({ state }) => state)
  return batchOf(slice, seen, states, afterId)
}

interface PurgedRow {
  readonly requestId: number
  readonly state: EndedState
  readonly target: string
  readonly isAbandoned: boolean
  readonly idempotencyKey: string | null
  readonly doubtfulAttempts: string
  readonly bytes: number
}

interface PurgedRequest {
  readonly due_at: number
  readonly priority: number
  readonly ordering_key: string | null
  readonly group_key: string | null
  readonly bytes: number
}

/** @returns null where the row is not as it was read: it is somebody else's now. */
function purgeOne(sql: Statements, requestId: number, scope: PurgeScope, now: number): PurgedRow | null {
  const row = sql.purgeIfEnded.get({ ...parametersOf(scope), id: requestId }) as
    | {
        state: EndedState
        target: string
        logical_hash: StoredHash
        abandoned: number
        idempotency_key: string | null
        doubtful_attempts: string
      }
    | undefined
  if (row === undefined) return null
  const request = sql.purgeRequest.get(requestId) as PurgedRequest | undefined
  if (request !== undefined) {
    const { priority, due_at: dueAt, ordering_key: orderingKey, group_key: group } = request
    leaveQueue(sql, { requestId, target: row.target, group, priority }, dueAt)
    if (orderingKey !== null) leaveLine(sql, { requestId, target: row.target, orderingKey }, now)
  }
  sql.purgeEvents.run(requestId)
  const keptBytes = (sql.purgeKeptPayload.get(requestId) as number | undefined) ?? 0
  // The ledger row stays: a later request under this hash must not be given a key that was used.
  sql.freeHashIfOwned.run(ledgerHashOf(row.target, logicalHashOf(row.logical_hash)), requestId)
  return {
    requestId,
    state: row.state,
    target: row.target,
    isAbandoned: row.abandoned === 1,
    idempotencyKey: row.idempotency_key,
    doubtfulAttempts: row.doubtful_attempts,
    bytes: (request?.bytes ?? 0) + keptBytes,
  }
}

/** One note a transaction; of doubt that a person's word has dropped, with what is needed to ask the API by hand. */
function noteBatch(sql: Statements, purged: readonly PurgedRow[], word: PurgeWord): void {
  const abandoned = purged
    .filter(({ isAbandoned }) => isAbandoned)
    .map(({ requestId, target, idempotencyKey, doubtfulAttempts }) => {
      return { requestId, target, idempotencyKey, doubtfulAttempts }
    })
  const range = { firstId: purged[0]?.requestId, lastId: purged.at(-1)?.requestId }
  const detail = { purged: purged.length, ...range, ...(abandoned.length > 0 && { abandoned }) }
  noteTargetEvent(sql, null, { kind: 'purged', reason: null, detail }, word)
}

function batchOf(slice: Slice, seen: readonly SliceRow[], purged: readonly EndedState[], afterId: number): PurgeBatch {
  const kept = seen.flatMap((row) => (row.is_purgeable === 1 || row.kept_for === null ? [] : [row.kept_for]))
  return {
    purged: countEach(purged),
    kept: countEach(kept),
    lastId: seen.at(-1)?.request_id ?? afterId,
    highestId: slice.highestId,
    done: slice.isLast && seen.length === slice.rows.length,
  }
}

function countEach<Name extends string>(names: readonly Name[]): Partial<Record<Name, number>> {
  const counts: Partial<Record<Name, number>> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

/** Call inside an IMMEDIATE transaction. */
export function dropKept(
  sql: Statements,
  target: string,
  before: number,
): { readonly dropped: number; readonly done: boolean } {
  const ids = sql.keptPastAge.all(target, before, REMOVALS_A_STEP) as number[]
  const dropped = untilSpent(ids, (id) => (sql.purgeKeptPayload.get(id) as number | undefined) ?? 0).length
  return { dropped, done: dropped === ids.length && ids.length < REMOVALS_A_STEP }
}

/** @returns those that were removed before the step's bytes or time were spent; at least one. */
function untilSpent<Item>(items: readonly Item[], remove: (item: Item) => number): readonly Item[] {
  const started = performance.now()
  let bytes = 0
  for (const [i, item] of items.entries()) {
    bytes += remove(item)
    if (bytes >= BYTES_A_STEP || performance.now() - started >= STEP_MS) return items.slice(0, i + 1)
  }
  return items
}

function parametersOf({ before, states, targets, abandoned }: PurgeScope): Record<string, string | number | null> {
  return {
    before,
    states: JSON.stringify(states),
    targets: targets === null ? null : JSON.stringify(targets),
    abandoned: abandoned ? 1 : 0,
  }
}
