// What people ask: ids by SQL, and of each of them the view that the rules make of its rows. One instant, nothing locked.
import { invariant } from '../../core/errors.ts'
import type { RequestState } from '../../core/task-state.ts'
import { toInvestigation } from '../sqlite/checks.ts'
import { listOrphans } from '../sqlite/orphans.ts'
import { type EventRow, type QueuedRow, requestViews, toEvent } from '../sqlite/queries.ts'
import type { TaskStateRow } from '../sqlite/rows.ts'
import type { Store } from '../store.ts'
import type { RequestFilter } from '../views.ts'
import type { Database, Transaction } from './connection.ts'
import type { Slice } from './slice.ts'
import { loadRows, rowsAboutSql } from './slice-rows.ts'
import { createStatus, STUCK } from './status.ts'
import { waitingBeyond } from './watch.ts'

type Views = Pick<
  Store,
  'list' | 'queued' | 'viewsOf' | 'eventsAfter' | 'lastEventId' | 'orphans' | 'status' | 'drainStatus' | 'inDoubt'
>

export interface ViewsOptions {
  readonly db: Database
  /** Quoted. */
  readonly schema: string
  readonly slice: Slice
  checkOpen(): void
}

export function createViews({ db, schema: s, slice, checkOpen }: ViewsOptions): Views {
  const read = async <T>(work: (tx: Transaction) => Promise<T>): Promise<T> => {
    checkOpen()
    return db.read(work)
  }
  const rowsAbout = (tx: Transaction, ids: readonly number[]) =>
    loadRows(tx, rowsAboutSql(s, '$1::bigint[]', { isLocked: false, neighbours: true }), [ids])
  const viewsOf = async (tx: Transaction, ids: readonly number[]) => {
    if (ids.length === 0) return []
    const rows = await rowsAbout(tx, ids)
    return slice.run(rows, (sql) => requestViews(sql, ids)).made
  }

  return {
    viewsOf: (ids) => read((tx) => viewsOf(tx, ids)),
    list: (filter) =>
      read(async (tx) => {
        const { text, values } = listSql(s, filter)
        const found = await tx.query<{ id: number }>(text, values)
        const views = await viewsOf(
          tx,
          found.map(({ id }) => id),
        )
        return views.toSorted((a, b) => a.requestId - b.requestId)
      }),
    queued: (filter, afterId, limit) =>
      read(async (tx) => {
        const { state = null, target = null, reason = null, group = null } = filter
        const rows = await tx.query<{ id: number; version: number; is_scheduled: boolean }>(
          `SELECT q.request_id AS id, COALESCE(t.version, 0) AS version, ${isScheduled(s)} AS is_scheduled
           FROM ${s}.requests q LEFT JOIN ${s}.task_state t USING (request_id)
           WHERE q.request_id > $1 AND COALESCE(t.state, 'queued') = 'queued' AND ($2::text IS NULL OR q.target = $2)
             AND ($3::text IS NULL OR t.reason = $3) AND ($4::text IS NULL OR q.group_key = $4)
             AND ($5::text IS NULL OR ($5 = 'scheduled') = ${isScheduled(s)})
           ORDER BY q.request_id LIMIT $6`,
          [afterId, target, reason, group, state, limit],
        )
        return rows.map(
          ({ id, version, is_scheduled }): QueuedRow => ({
            requestId: id,
            version,
            state: is_scheduled ? 'scheduled' : 'ready',
          }),
        )
      }),
    eventsAfter: (eventId, limit) =>
      read(async (tx) => {
        const rows = await tx.query<EventRow>(
          `SELECT * FROM ${s}.events WHERE event_id > $1 ORDER BY event_id LIMIT $2`,
          [eventId, limit],
        )
        return rows.map(toEvent)
      }),
    lastEventId: () =>
      read(async (tx) => {
        const [row] = await tx.query<{ last: number | null }>(`SELECT MAX(event_id) AS last FROM ${s}.events`)
        return row?.last ?? 0
      }),
    orphans: (limit) =>
      read(async (tx) => {
        const found = await tx.query<{ id: number }>(
          `SELECT request_id AS id FROM ${s}.orphans ORDER BY orphan_id LIMIT $1`,
          [limit],
        )
        const rows = await rowsAbout(tx, [...new Set(found.map(({ id }) => id))])
        const purged = await loadRows(
          tx,
          `SELECT 'orphans' AS t, to_json(x) AS r FROM (SELECT * FROM ${s}.orphans ORDER BY orphan_id LIMIT $1) x`,
          [limit],
        )
        return slice.run(new Map([...rows, ...purged]), (sql) => listOrphans(sql, limit)).made
      }),
    status: createStatus(s, read, viewsOf),
    drainStatus: (targets, horizonAt, claimedBefore) =>
      read(async (tx) => {
        const [row] = await tx.query<{ queued: boolean; in_doubt: boolean }>(drainSql(s), [
          targets,
          horizonAt,
          claimedBefore,
        ])
        invariant(row !== undefined, 'the drain was asked about and nothing came')
        return { queued: row.queued, inDoubt: row.in_doubt }
      }),
    inDoubt: (afterId, limit) =>
      read(async (tx) => {
        const found = await tx.query<{ id: number }>(
          `SELECT request_id AS id FROM ${s}.task_state WHERE state IN ('invoking', 'unknown') AND request_id > $1 ORDER BY request_id LIMIT $2`,
          [afterId, limit],
        )
        const ids = found.map(({ id }) => id)
        const rows = await rowsAbout(tx, ids)
        const versions = await loadRows(
          tx,
          `SELECT 'target_versions' AS t, to_json(v) AS r FROM ${s}.target_versions v WHERE (v.target, v.version) IN (
             SELECT target, target_version FROM ${s}.task_state WHERE request_id = ANY($1::bigint[]))`,
          [ids],
        )
        return slice.run(new Map([...rows, ...versions]), (sql) =>
          ids.map((id) => toInvestigation(sql, sql.taskState.get(id) as TaskStateRow)),
        ).made
      }),
  }
}

function isBehind(s: string): string {
  return `EXISTS (SELECT 1 FROM ${s}.ordering_followers f WHERE f.target = q.target AND f.ordering_key = q.ordering_key
    AND f.request_id = q.request_id)`
}

/** Of a queued request `q`. Nothing promotes those in line, so the latest time that the store knows of says whether they are due. */
function isScheduled(s: string): string {
  return `(EXISTS (SELECT 1 FROM ${s}.waiting w WHERE w.due_at = q.due_at AND w.request_id = q.request_id)
    OR EXISTS (SELECT 1 FROM ${s}.ordering_followers f WHERE f.target = q.target AND f.ordering_key = q.ordering_key
      AND f.request_id = q.request_id AND f.due_at > GREATEST(f.since_at, (SELECT high_water_at FROM ${s}.store))))`
}

/** Ids alone, each filter by the index that serves it. */
function listSql(s: string, filter: RequestFilter): { text: string; values: unknown[] } {
  const { state, target, reason, orderingKey, stuck, group, limit, afterId = 0 } = filter
  const values: unknown[] = [afterId]
  const param = (value: unknown) => `$${values.push(value)}`
  const isQueued = state === 'ready' || state === 'scheduled'
  const isStored = !isQueued && (state !== undefined || reason !== undefined)
  const source = isStored
    ? `${s}.task_state t LEFT JOIN ${s}.requests q USING (request_id)`
    : isQueued || orderingKey !== undefined || group !== undefined || stuck === true
      ? `${s}.requests q LEFT JOIN ${s}.task_state t USING (request_id)`
      : `${s}.requests q FULL JOIN ${s}.task_state t USING (request_id)`
  const where = ['request_id > $1']
  if (isQueued)
    where.push(`COALESCE(t.state, 'queued') = 'queued'`, `${state === 'scheduled' ? '' : 'NOT '}${isScheduled(s)}`)
  else if (state !== undefined) where.push(`t.state = ${param(state satisfies RequestState)}`)
  if (reason !== undefined) where.push(`t.reason = ${param(reason)}`, `t.state <> 'invoking'`)
  if (target !== undefined) where.push(`COALESCE(t.target, q.target) = ${param(target)}`)
  if (group !== undefined) where.push(`q.group_key = ${param(group)}`)
  if (orderingKey !== undefined) {
    where.push(`q.ordering_key = ${param(orderingKey)}`)
    where.push(`(${isBehind(s)} OR EXISTS (SELECT 1 FROM ${s}.ordering_heads h WHERE h.request_id = q.request_id AND h.target = q.target
      AND h.ordering_key = q.ordering_key))`)
  }
  if (stuck === true)
    where.push(`EXISTS (SELECT 1 FROM ${s}.ordering_followers f JOIN ${s}.ordering_heads h USING (target, ordering_key)
      JOIN ${s}.task_state b ON b.request_id = h.request_id WHERE f.target = q.target AND f.ordering_key = q.ordering_key
        AND f.request_id = q.request_id AND b.state IN ${STUCK})`)
  return {
    text: `SELECT request_id AS id FROM ${source} WHERE ${where.join(' AND ')} ORDER BY request_id LIMIT ${param(limit)}`,
    values,
  }
}

function drainSql(s: string): string {
  return `WITH served AS (SELECT x AS target FROM unnest($1::text[]) x),
      waits AS (${waitingBeyond(s, 'served', '$2::bigint')}
        UNION SELECT target FROM ${s}.breakers WHERE opened_at IS NOT NULL AND failed_probes > 0),
      resumed AS (SELECT target FROM served WHERE target NOT IN (SELECT target FROM ${s}.targets WHERE paused_at IS NOT NULL)),
      open AS (SELECT target FROM resumed WHERE target NOT IN (SELECT target FROM waits))
    SELECT EXISTS (SELECT 1 FROM open o WHERE EXISTS (SELECT 1 FROM ${s}.ready q WHERE q.target = o.target))
        OR EXISTS (SELECT 1 FROM ${s}.waiting WHERE due_at <= $2 AND target IN (SELECT target FROM open)) AS queued,
      EXISTS (SELECT 1 FROM ${s}.task_state WHERE state = 'invoking' AND target = ANY($1) AND updated_at <= $3)
        OR EXISTS (SELECT 1 FROM ${s}.task_state t LEFT JOIN ${s}.requests q USING (request_id)
          WHERE t.state = 'unknown' AND t.next_check_at <= $2 AND t.target = ANY($1)
          AND NOT (t.reason IS NOT DISTINCT FROM 'target_paused' AND t.target NOT IN (SELECT target FROM resumed))
          AND NOT (t.reason IS NOT DISTINCT FROM 'ordering' AND ${isBehind(s)})
          AND NOT (COALESCE(t.reason, '') IN ('told_to_wait', 'breaker_open') AND t.target IN (SELECT target FROM waits))) AS in_doubt`
}
