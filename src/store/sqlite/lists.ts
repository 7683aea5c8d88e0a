// Lists of requests: each filter by the index that serves it, in the order of ids.
import { isQueued } from '../../core/task-state.ts'
import type { RequestFilter, RequestView } from '../views.ts'
import type { Connection } from './connection.ts'
import { type OverviewRow, toView } from './queries.ts'
import { IDS_OF_KEY, READY_BEHIND, SCHEDULED_BEHIND, STUCK_IDS } from './sql/ordering.ts'
import { NEEDS_ATTENTION, OVERVIEW_COLUMNS } from './sql/views.ts'
import type { Statements } from './statements.ts'

/** Each source is read in request id order from its own index or table, never both tables whole. */
const SOURCES = {
  ready: queuedSource('ready', READY_BEHIND),
  scheduled: queuedSource('waiting', SCHEDULED_BEHIND),
  other: 'task_state LEFT JOIN requests ON requests.request_id = task_state.request_id',
  ofGroup: 'requests LEFT JOIN task_state ON task_state.request_id = requests.request_id',
  all: `(SELECT request_id FROM (SELECT request_id FROM requests WHERE request_id > :after ORDER BY request_id LIMIT +:bound)
      UNION SELECT request_id FROM (SELECT request_id FROM task_state WHERE request_id > :after ORDER BY request_id LIMIT +:bound)) AS ids
    LEFT JOIN requests ON requests.request_id = ids.request_id LEFT JOIN task_state ON task_state.request_id = ids.request_id`,
}

const SOURCE_IDS = {
  other: 'task_state.request_id',
  ofGroup: 'requests.request_id',
  all: 'COALESCE(requests.request_id, task_state.request_id)',
}

/** States that an index keeps in the order of ids. */
const ATTENTION = ['unknown', 'held', 'dead', 'canceled']

/** Whoever has the turn stands in the queue, the others of its ordering key behind it. */
function queuedSource(queue: string, behind: string): string {
  return `(SELECT request_id FROM ${queue} UNION ALL ${behind}) AS queued JOIN requests USING (request_id)
    LEFT JOIN task_state ON task_state.request_id = requests.request_id`
}

export function listRequests(db: Connection, sql: Statements, filter: RequestFilter): RequestView[] {
  if (filter.orderingKey !== undefined || filter.stuck === true) return listInLine(db, sql, filter)
  const queued = isQueued(filter.state) ? filter.state : null
  // Only what was called or decided has a reason.
  const isStored = queued === null && (filter.state !== undefined || filter.reason !== undefined)
  const others = isStored ? 'other' : filter.group === undefined ? 'all' : 'ofGroup'
  const source = SOURCES[queued ?? others]
  const id = SOURCE_IDS[others]
  const where = [`${id} > :after`]
  if (queued === null && filter.state !== undefined) where.push('task_state.state = :state')
  if (ATTENTION.includes(filter.state ?? '')) where.push(NEEDS_ATTENTION)
  if (filter.reason !== undefined) where.push("task_state.reason = :reason AND task_state.state <> 'invoking'")
  if (filter.target !== undefined) where.push('COALESCE(task_state.target, requests.target) = :target')
  if (filter.group !== undefined) where.push('requests.group_key = :group')
  // A target filter over both tables has no index of its own: the bound is lifted, the limit stays.
  const bound = filter.target === undefined ? filter.limit : -1
  const text = `SELECT ${OVERVIEW_COLUMNS} FROM ${source} WHERE ${where.join(' AND ')} ORDER BY ${id} LIMIT +:limit`
  const parameters = {
    after: filter.afterId ?? 0,
    state: filter.state,
    target: filter.target,
    reason: filter.reason,
    group: filter.group,
    limit: filter.limit,
    bound,
  }
  return (db.prepare(text).all(parameters) as OverviewRow[]).map((row) => toView(sql, row))
}

/** From those that share a key, or stand behind one in doubt; both are found by the tables of ordering keys. */
function listInLine(db: Connection, sql: Statements, filter: RequestFilter): RequestView[] {
  const { orderingKey, stuck, limit, afterId: after = 0, ...by } = filter
  const ids = orderingKey === undefined ? STUCK_IDS : IDS_OF_KEY
  const where = [
    'request_id > :after',
    ...(['state', 'target', 'reason'] as const).filter((name) => by[name]).map((name) => `${name} = :${name}`),
    ...(by.group === undefined ? [] : ['group_key = :group']),
  ]
  if (orderingKey !== undefined && stuck === true) where.push(`request_id IN (${STUCK_IDS})`)
  const text = `SELECT * FROM (SELECT ${OVERVIEW_COLUMNS} FROM (${ids}) AS ids JOIN requests ON requests.request_id = ids.request_id
      LEFT JOIN task_state ON task_state.request_id = ids.request_id)
    WHERE ${where.join(' AND ')} ORDER BY request_id LIMIT +:limit`
  return (db.prepare(text).all({ ...by, orderingKey, after, limit }) as OverviewRow[]).map((row) => toView(sql, row))
}
