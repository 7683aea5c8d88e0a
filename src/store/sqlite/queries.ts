// What people ask: reads only, bounded, in the words of the store interface.
import type { Evidence } from '../../core/outcome.ts'
import { fingerprintOf } from '../../core/prepared-call.ts'
import { fittingResolutions, type ResolutionKind } from '../../core/resolutions.ts'
import type { QueuedState, RequestState } from '../../core/task-state.ts'
import type { OwnFacts } from '../origin.ts'
import { timeLineOf } from '../time-line.ts'
import type {
  EventView,
  HeadOfKey,
  OrphanView,
  PlaceInLine,
  RequestView,
  SeenRequest,
  StoredRequest,
  StoreFacts,
} from '../views.ts'
import { type PauseRow, type TimedPauseRow, toTimedPause } from './pauses.ts'
import { logicalHashOf, type StoredHash, type TaskStateRow, thaw, toTaskState } from './rows.ts'
import type { Statements } from './statements.ts'
import type { RequestRow } from './transitions.ts'

export interface OverviewRow {
  request_id: number
  target: string
  state: RequestState
  task_id: string | null
  logical_hash: StoredHash
  priority: number
  attempts: number
  attempt: number
  generation: number
  version: number
  due_at: number | null
  expires_at: number | null
  created_at: number
  updated_at: number
  unknown_since: number | null
  started_at: number | null
  executed: number
  has_older_answer: number
  reason: string | null
  evidence: string | null
  ordering_key: string | null
  group_key: string | null
  behind: number | null
}

/** What a turn asks of the queue before it begins. */
export interface QueueFacts {
  /** The earliest deadline of what is queued. */
  readonly nextExpiryAt: number | null
  /** Some target is ranked by more than priority, or was. */
  readonly isRanked: boolean
}

/** The one row of `store`. */
export function readFacts(
  sql: Statements,
): Omit<StoreFacts, 'engine' | 'location' | 'folderPath'> & OwnFacts & QueueFacts {
  const row = sql.facts.get() as {
    schema_version: number
    namespace: string
    incarnation: string
    high_water_at: number
    has_called: number
    clock_ahead_ms: number
    next_expiry_at: number | null
    is_ranked: number
  }
  return {
    schemaVersion: row.schema_version,
    namespace: row.namespace,
    incarnation: row.incarnation,
    highWaterAt: row.high_water_at,
    hasCalled: row.has_called === 1,
    clockAheadMs: row.clock_ahead_ms,
    nextExpiryAt: row.next_expiry_at,
    isRanked: row.is_ranked === 1,
  }
}

export function requestView(sql: Statements, requestId: number): RequestView | null {
  const row = sql.overview.get({ id: requestId }) as OverviewRow | undefined
  return row === undefined ? null : toView(sql, row)
}

export function requestViews(sql: Statements, requestIds: readonly number[]): RequestView[] {
  return (sql.overviews.all({ ids: JSON.stringify(requestIds) }) as OverviewRow[]).map((row) => toView(sql, row))
}

export function toView(sql: Statements, row: OverviewRow): RequestView {
  const evidence = row.evidence === null ? null : (JSON.parse(row.evidence) as Evidence)
  const { state } = row
  // What an earlier call came to says nothing of the one that runs now.
  const reason = state === 'invoking' ? null : row.reason
  return {
    requestId: row.request_id,
    target: row.target,
    state: row.state,
    taskId: row.task_id,
    logicalHash: logicalHashOf(row.logical_hash),
    priority: row.priority,
    attempts: row.attempts,
    attempt: row.attempt,
    generation: row.generation,
    version: row.version,
    dueAt: row.due_at,
    expiresAt: row.expires_at,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    inDoubtSince:
      state === 'unknown' || state === 'held' ? (row.started_at ?? row.unknown_since ?? row.updated_at) : null,
    reason,
    lastError: reason === null ? null : describe(reason, evidence),
    resolutions: resolutionsOf(row, reason),
    orderingKey: row.ordering_key,
    group: row.group_key,
    behind: row.behind === null ? null : headOfKey(sql, row.behind),
  }
}

function headOfKey(sql: Statements, headId: number): HeadOfKey {
  const { state, reason } = sql.overview.get({ id: headId }) as OverviewRow
  return { requestId: headId, state, reason: state === 'invoking' ? null : reason }
}

function resolutionsOf(row: OverviewRow, reason: string | null): readonly ResolutionKind[] {
  if (row.state !== 'unknown' && row.state !== 'held') return []
  const olderAnswer = row.has_older_answer === 1 ? true : null
  return fittingResolutions({
    state: row.state,
    taskId: row.task_id,
    executed: row.executed === 1,
    olderAnswer,
    reason,
  })
}

/** A person's word, which no call has met since. */
const OF_NO_CALL = /^(?:retried|resolved_\w+|canceled|abandoned)$/

/** One line for a list: the reason, and what the API or the transport said. */
function describe(reason: string, evidence: Evidence | null): string {
  if (OF_NO_CALL.test(reason)) return reason
  const said = evidence?.error ?? (evidence?.status === undefined ? evidence?.note : `HTTP ${evidence.status}`) ?? null
  return said === null ? reason : `${reason}: ${said}`
}

export function requestDetail(sql: Statements, requestId: number): StoredRequest | null {
  const view = requestView(sql, requestId)
  if (view === null) return null
  const stored = sql.taskState.get(requestId) as TaskStateRow | undefined
  const request = sql.request.get(requestId) as RequestRow | undefined
  const payload = request?.payload ?? (sql.keptPayload.get(requestId) as string | undefined)
  const call = stored === undefined || stored.frozen === null ? null : thaw(stored.frozen, request?.payload ?? '')
  const prepared = call === null ? null : { ...call, fingerprint: fingerprintOf(call) }
  const taskState = stored === undefined ? null : toTaskState(stored)
  const events = (sql.eventsOf.all(requestId) as EventRow[]).map(toEvent)
  const { highWaterAt, clockAheadMs } = readFacts(sql)
  const paused = sql.pauseOf.get(view.target) as PauseRow | undefined
  return {
    ...view,
    payload: payload === undefined ? null : (JSON.parse(payload) as unknown),
    dedupe: request?.dedupe ?? null,
    taskState,
    prepared,
    description: (sql.description.get(view.target, taskState?.targetVersion ?? null) as string | undefined) ?? null,
    highWaterAt,
    clockAheadMs,
    events,
    timeLine: timeLineOf({ view, row: taskState, fingerprint: prepared?.fingerprint ?? null, events }),
    pause:
      paused === undefined ? null : { at: paused.paused_at ?? 0, by: paused.paused_by, reason: paused.pause_reason },
    waits: (sql.timedPausesOf.all({ target: view.target }) as TimedPauseRow[]).map(toTimedPause),
    orphans: (sql.orphansOf.all(requestId) as OrphanRow[]).map(toOrphan),
    line: placeInLine(sql, view),
  }
}

export interface EventRow {
  event_id: number
  request_id: number | null
  target: string | null
  at: number
  kind: string
  from_state: string | null
  to_state: string | null
  attempt: number | null
  actor: string
  reason: string | null
  detail: string | null
}

export function toEvent(row: EventRow): EventView {
  return {
    eventId: row.event_id,
    requestId: row.request_id,
    target: row.target,
    at: row.at,
    kind: row.kind,
    from: row.from_state,
    to: row.to_state,
    attempt: row.attempt,
    actor: row.actor,
    reason: row.reason,
    detail: row.detail === null ? null : JSON.parse(row.detail),
  }
}

export interface OrphanRow {
  orphan_id: number
  request_id: number
  target: string
  attempt: number
  task_id: string
  found_at: number
  evidence: string | null
}

export function toOrphan(row: OrphanRow): OrphanView {
  return {
    orphanId: row.orphan_id,
    requestId: row.request_id,
    target: row.target,
    attempt: row.attempt,
    taskId: row.task_id,
    foundAt: row.found_at,
    evidence: row.evidence === null ? null : (JSON.parse(row.evidence) as Evidence),
  }
}

export type QueuedRow = SeenRequest & { readonly state: QueuedState }

function placeInLine(sql: Statements, { requestId, target, orderingKey, behind }: RequestView): PlaceInLine | null {
  if (orderingKey === null) return null
  const waiting = sql.countFollowers.get(target, orderingKey) as number
  const before = behind === null ? 0 : 1 + (sql.countBefore.get(target, orderingKey, requestId) as number)
  const isInLine = behind !== null || sql.headOf.get(target, orderingKey) === requestId
  return isInLine ? { place: before + 1, waiting } : null
}
