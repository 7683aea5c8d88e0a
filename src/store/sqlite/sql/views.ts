// What people are shown, and what a worker asks before it ends or rests.
import { HIGHEST_PLAIN_RANK } from '../../../core/ranking.ts'
import { waitingBeyond } from './limits.ts'
import { BEHIND, IS_SCHEDULED_BEHIND, isBehind } from './ordering.ts'
import { row, value } from './text.ts'

/** Says word for word what the index `task_state_attention` holds, so that it is used. */
export const NEEDS_ATTENTION = `(task_state.state = 'unknown' OR task_state.state = 'held' OR task_state.state = 'dead'
  OR task_state.state = 'canceled') = 1`

/** Of a queued request. */
const IS_SCHEDULED = `(EXISTS (SELECT 1 FROM waiting WHERE waiting.due_at = requests.due_at
    AND waiting.request_id = requests.request_id) OR (${IS_SCHEDULED_BEHIND}))`

const LOGICAL_HASH = 'COALESCE(task_state.logical_hash, requests.logical_hash)'

export const OVERVIEW_COLUMNS = overviewColumns(LOGICAL_HASH)

/** The columns of both tables as one. @param logicalHash as whoever asks reads it. */
function overviewColumns(logicalHash: string): string {
  return `
  COALESCE(requests.request_id, task_state.request_id) AS request_id,
  COALESCE(task_state.target, requests.target) AS target,
  CASE WHEN COALESCE(task_state.state, 'queued') <> 'queued' THEN task_state.state
    WHEN EXISTS (SELECT 1 FROM waiting WHERE waiting.due_at = requests.due_at
      AND waiting.request_id = requests.request_id) THEN 'scheduled'
    WHEN ${IS_SCHEDULED_BEHIND} THEN 'scheduled'
    ELSE 'ready' END AS state,
  task_state.task_id,
  ${logicalHash} AS logical_hash,
  COALESCE(requests.priority, task_state.priority) AS priority,
  COALESCE(task_state.attempts, 0) AS attempts,
  COALESCE(task_state.attempt, 0) AS attempt,
  COALESCE(requests.generation, task_state.generation) AS generation,
  COALESCE(task_state.version, 0) AS version,
  requests.due_at,
  COALESCE(requests.expires_at, task_state.expires_at) AS expires_at,
  COALESCE(requests.created_at, task_state.created_at) AS created_at,
  COALESCE(task_state.updated_at, requests.created_at) AS updated_at,
  task_state.unknown_since,
  task_state.started_at,
  COALESCE(task_state.executed, 0) AS executed,
  task_state.older_answer IS NOT NULL AS has_older_answer,
  task_state.reason,
  task_state.evidence,
  requests.ordering_key,
  requests.group_key,
  ${BEHIND} AS behind`
}

/** For people with a database shell, where the hash is text; no statement of ours asks it. */
export const OVERVIEW_VIEW = {
  drop: 'DROP VIEW IF EXISTS request_overview',
  create: `CREATE VIEW request_overview AS SELECT ${overviewColumns(
    `CASE typeof(${LOGICAL_HASH}) WHEN 'blob' THEN 'v1:' || lower(hex(${LOGICAL_HASH})) ELSE ${LOGICAL_HASH} END`,
  )}
FROM (SELECT request_id FROM requests UNION SELECT request_id FROM task_state) AS ids
LEFT JOIN requests ON requests.request_id = ids.request_id
LEFT JOIN task_state ON task_state.request_id = ids.request_id`,
} as const

/** One request by either table's primary key: the view `request_overview` would scan both. */
function overviewOf(where: string): string {
  const join = where.startsWith('requests')
    ? 'requests LEFT JOIN task_state ON task_state.request_id = requests.request_id'
    : 'task_state LEFT JOIN requests ON requests.request_id = task_state.request_id'
  return `SELECT ${OVERVIEW_COLUMNS} FROM ${join} WHERE ${where}`
}

export const VIEW_SQL = {
  // queries
  overviews: row(
    `${overviewOf('requests.request_id IN (SELECT value FROM json_each(:ids))')}
     UNION ${overviewOf('task_state.request_id IN (SELECT value FROM json_each(:ids))')}`,
  ),
  overview: row(`${overviewOf('requests.request_id = :id')} UNION ${overviewOf('task_state.request_id = :id')}`),
  queuedAfter: row(
    `SELECT requests.request_id AS requestId, COALESCE(task_state.version, 0) AS version,
       CASE WHEN ${IS_SCHEDULED} THEN 'scheduled' ELSE 'ready' END AS state
     FROM requests LEFT JOIN task_state ON task_state.request_id = requests.request_id
     WHERE requests.request_id > :after AND COALESCE(task_state.state, 'queued') = 'queued'
       AND (:target IS NULL OR requests.target = :target) AND (:reason IS NULL OR task_state.reason = :reason)
       AND (:group IS NULL OR requests.group_key = :group)
       AND (:state IS NULL OR (:state = 'scheduled') = ${IS_SCHEDULED})
     ORDER BY requests.request_id LIMIT +:limit`,
  ),
  request: row('SELECT * FROM requests WHERE request_id = ?'),
  owedAfter: row('SELECT * FROM requests WHERE request_id > ? ORDER BY request_id LIMIT +?'),
  frozen: value('SELECT frozen FROM task_state WHERE request_id = ?'),
  eventsAfter: row('SELECT * FROM events WHERE event_id > ? ORDER BY event_id LIMIT +?'),
  lastEventId: value('SELECT COALESCE(MAX(event_id), 0) FROM events'),
  eventsOf: row('SELECT * FROM events WHERE request_id = ? ORDER BY event_id'),
  orphansOf: row('SELECT * FROM orphans WHERE request_id = ? ORDER BY orphan_id'),
  orphans: row('SELECT * FROM orphans ORDER BY orphan_id LIMIT +?'),
  orphan: row('SELECT * FROM orphans WHERE orphan_id = ?'),
  deleteOrphan: row('DELETE FROM orphans WHERE orphan_id = ?'),
  // Ids below it were given to orphans, whether they are still there or not.
  lastOrphanId: value(`SELECT seq FROM sqlite_sequence WHERE name = 'orphans'`),
  countOrphans: value('SELECT COUNT(*) FROM orphans'),
  inDoubt: row(
    `SELECT * FROM task_state WHERE state IN ('invoking', 'unknown') AND request_id > ? ORDER BY request_id LIMIT +?`,
  ),
  // Each state by its own index.
  doubtRows: row(
    `SELECT * FROM (SELECT * FROM task_state INDEXED BY task_state_invoking
       WHERE state = 'invoking' ORDER BY lease_until LIMIT +:limit)
     UNION ALL SELECT * FROM (SELECT * FROM task_state WHERE state = 'unknown' ORDER BY next_check_at LIMIT +:limit)
     UNION ALL SELECT * FROM (SELECT * FROM task_state WHERE ${NEEDS_ATTENTION}
       AND state = 'held' LIMIT +:limit)`,
  ),
  // A slice of ids at a time: grouping sorts its rows in memory.
  countStates: row(
    `SELECT target, state, COUNT(*) AS rows FROM task_state
     WHERE request_id > :after AND request_id <= :through AND state <> 'queued' GROUP BY target, state`,
  ),
  // Of the same slices: what was told to wait for long, and is not due yet.
  countParked: row(
    `SELECT task_state.target, COUNT(*) AS rows, MIN(waiting.due_at) AS due_at FROM task_state
       JOIN requests ON requests.request_id = task_state.request_id
       JOIN waiting ON waiting.due_at = requests.due_at AND waiting.request_id = task_state.request_id
     WHERE task_state.request_id > :after AND task_state.request_id <= :through
       AND task_state.state = 'queued' AND task_state.reason = 'parked' GROUP BY task_state.target`,
  ),
  countReady: row('SELECT target, COUNT(*) AS rows FROM ready GROUP BY target'),
  countGroups: row(`SELECT target, COUNT(*) AS rows FROM group_rotation WHERE group_key <> '' GROUP BY target`),
  longestGroups: row(
    `SELECT group_key AS "group", COUNT(*) AS ready FROM ready WHERE target = ? AND group_key > ''
     GROUP BY group_key ORDER BY ready DESC, group_key LIMIT +?`,
  ),
  countWaiting: row('SELECT target, COUNT(*) AS rows FROM waiting GROUP BY target'),
  countExpired: row(
    `SELECT target, COUNT(*) AS rows FROM task_state WHERE ${NEEDS_ATTENTION} AND state = 'dead' AND reason = 'expired'
     GROUP BY target`,
  ),
  nextLane: value('SELECT target FROM ready WHERE target > ? ORDER BY target LIMIT 1'),
  // The group is that of the least, as SQLite has it of a single MIN.
  groupedHeads: row(
    `SELECT rank, MIN(due_at) AS due_at, group_key FROM ready WHERE target = :target AND group_key > '' AND rank <= ${HIGHEST_PLAIN_RANK}
     GROUP BY rank`,
  ),
  nextPlainHead: row(
    `SELECT rank, due_at FROM ready WHERE target = ? AND group_key = ? AND rank > ? AND rank <= ${HIGHEST_PLAIN_RANK}
     ORDER BY rank, due_at LIMIT 1`,
  ),
  // The difference is what the priority is worth.
  nextAgedHead: row(
    `SELECT head.worth, head.due_at, requests.priority, requests.group_key
     FROM (SELECT due_at - rank AS worth, due_at, request_id FROM ready
       WHERE rank > ${HIGHEST_PLAIN_RANK} AND target = ? AND (due_at - rank) > ? ORDER BY target, (due_at - rank), due_at LIMIT 1) AS head
     JOIN requests ON requests.request_id = head.request_id`,
  ),
  oldestUnknown: value(`SELECT MIN(unknown_since) FROM task_state WHERE state = 'unknown'`),
  drainStatus: row(
    `WITH served AS (SELECT value AS target FROM json_each(:targets)),
       -- A target whose probes fail is waited for no longer.
       waits AS (${waitingBeyond('served', ':horizon')}
         UNION SELECT target FROM breakers WHERE opened_at IS NOT NULL AND failed_probes > 0),
       resumed AS (SELECT target FROM served WHERE target NOT IN (SELECT target FROM targets WHERE paused_at IS NOT NULL)),
       open AS (SELECT target FROM resumed WHERE target NOT IN (SELECT target FROM waits))
     SELECT EXISTS (SELECT 1 FROM ready WHERE target IN open)
         OR EXISTS (SELECT 1 FROM waiting WHERE due_at <= :horizon AND target IN open) AS queued,
       EXISTS (SELECT 1 FROM task_state WHERE state = 'invoking' AND target IN served AND updated_at <= :claimedBefore)
         OR EXISTS (SELECT 1 FROM task_state WHERE state = 'unknown' AND next_check_at <= :horizon AND target IN served
           AND NOT (reason IS 'target_paused' AND target NOT IN (SELECT target FROM resumed))
           AND NOT (reason IS 'ordering' AND ${isBehind('task_state.request_id')})
           AND NOT ((reason IS 'told_to_wait' OR reason IS 'breaker_open') AND target IN (SELECT target FROM waits))) AS in_doubt`,
  ),
  hasWork: value(
    `WITH served AS (SELECT value AS target FROM json_each(:targets)
           WHERE value NOT IN (SELECT target FROM targets WHERE paused_at IS NOT NULL)),
       open AS (SELECT target FROM served WHERE target NOT IN (${waitingBeyond('served', ':now')}))
       SELECT EXISTS (SELECT 1 FROM ready WHERE target IN open)
         OR EXISTS (SELECT 1 FROM waiting WHERE due_at <= :now)
         OR EXISTS (SELECT 1 FROM expiries WHERE expires_at <= :now)
         OR EXISTS (SELECT 1 FROM task_state WHERE state = 'unknown' AND next_check_at <= :now
           AND target IN (SELECT value FROM json_each(:targets)))
         OR EXISTS (SELECT 1 FROM task_state WHERE state = 'invoking' AND lease_until <= :now)`,
  ),
} as const
