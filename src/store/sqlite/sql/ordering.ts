// Ordering keys: whose turn it is, and who stands behind it. Every statement goes by target and key, whatever the tables hold.
import { row, value } from './text.ts'

/** Of a request with a key: it stands behind another. */
const IN_LINE = `ordering_followers.target = requests.target AND ordering_followers.ordering_key = requests.ordering_key
  AND ordering_followers.request_id = requests.request_id`

/** @param id an expression. */
export function isBehind(id: string): string {
  return `EXISTS (SELECT 1 FROM requests JOIN ordering_followers ON ${IN_LINE} WHERE requests.request_id = ${id})`
}

/** Columns of an overview; a request without a key is asked nothing. */
export const BEHIND = `CASE WHEN requests.ordering_key IS NOT NULL THEN
    (SELECT ordering_heads.request_id FROM ordering_followers JOIN ordering_heads USING (target, ordering_key)
      WHERE ${IN_LINE}) END`

/** Nothing promotes those in line, so the latest time that the store knows of says whether they are due. */
const KNOWN_TIME = 'MAX(ordering_followers.since_at, (SELECT high_water_at FROM store WHERE id = 1))'
export const IS_SCHEDULED_BEHIND = `requests.ordering_key IS NOT NULL
    AND EXISTS (SELECT 1 FROM ordering_followers WHERE ${IN_LINE} AND ordering_followers.due_at > ${KNOWN_TIME})`
export const READY_BEHIND = `SELECT request_id FROM ordering_followers WHERE due_at <= ${KNOWN_TIME}`
export const SCHEDULED_BEHIND = `SELECT request_id FROM ordering_followers WHERE due_at > ${KNOWN_TIME}`

/** Heads that do not move by being called, and hold up others. */
const STUCK = `ordering_heads CROSS JOIN task_state ON task_state.request_id = ordering_heads.request_id
     WHERE task_state.state IN ('unknown', 'held', 'dead') AND EXISTS (SELECT 1 FROM ordering_followers
       WHERE ordering_followers.target = ordering_heads.target
         AND ordering_followers.ordering_key = ordering_heads.ordering_key)`
const FOLLOWERS_OF_HEAD = `(SELECT COUNT(*) FROM ordering_followers WHERE ordering_followers.target = ordering_heads.target
         AND ordering_followers.ordering_key = ordering_heads.ordering_key)`

/** Request ids behind a head that does not move by being called. */
export const STUCK_IDS = `SELECT ordering_followers.request_id FROM ordering_followers
    JOIN ordering_heads USING (target, ordering_key)
    JOIN task_state ON task_state.request_id = ordering_heads.request_id
    WHERE task_state.state IN ('unknown', 'held', 'dead')`

/** Request ids of a key, in one target or in each that has keys, which are found one after the other. */
export const IDS_OF_KEY = `WITH RECURSIVE ordered (target) AS (
      SELECT MIN(target) FROM ordering_heads
      UNION ALL SELECT (SELECT MIN(target) FROM ordering_heads WHERE target > ordered.target)
        FROM ordered WHERE ordered.target IS NOT NULL)
    SELECT request_id FROM ordered JOIN ordering_heads USING (target) WHERE ordering_key = :orderingKey
    UNION ALL
    SELECT request_id FROM ordered JOIN ordering_followers USING (target) WHERE ordering_key = :orderingKey`

export const ORDERING_SQL = {
  becomeHead: row(
    'INSERT INTO ordering_heads (target, ordering_key, request_id) VALUES (?, ?, ?) ON CONFLICT (target, ordering_key) DO NOTHING',
  ),
  headOf: value('SELECT request_id FROM ordering_heads WHERE target = ? AND ordering_key = ?'),
  changeHead: row('UPDATE ordering_heads SET request_id = ? WHERE target = ? AND ordering_key = ?'),
  deleteHead: row('DELETE FROM ordering_heads WHERE target = ? AND ordering_key = ? AND request_id = ?'),
  follow: row(
    `INSERT INTO ordering_followers (target, ordering_key, request_id, since_at, due_at) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (target, ordering_key, request_id) DO UPDATE SET since_at = excluded.since_at, due_at = excluded.due_at`,
  ),
  // Not queued any more: it is in doubt, and keeps its place.
  standAside: row(
    'UPDATE ordering_followers SET due_at = NULL WHERE target = ? AND ordering_key = ? AND request_id = ?',
  ),
  deleteFollower: row('DELETE FROM ordering_followers WHERE target = ? AND ordering_key = ? AND request_id = ?'),
  firstFollower: row(
    `SELECT request_id, due_at FROM ordering_followers WHERE target = ? AND ordering_key = ? ORDER BY request_id LIMIT 1`,
  ),
  orderingKeyOf: row('SELECT target, ordering_key FROM requests WHERE request_id = ? AND ordering_key IS NOT NULL'),
  placeInQueue: row('SELECT priority, due_at, group_key FROM requests WHERE request_id = ?'),
  isBehind: value(`SELECT ${isBehind('?')}`),
  // It waited only for its turn.
  wakeInLine: row(
    `UPDATE task_state SET next_check_at = ? WHERE request_id = ? AND state = 'unknown' AND reason = 'ordering'`,
  ),

  // views
  countBefore: value(
    'SELECT COUNT(*) FROM ordering_followers WHERE target = ? AND ordering_key = ? AND request_id < ?',
  ),
  countFollowers: value('SELECT COUNT(*) FROM ordering_followers WHERE target = ? AND ordering_key = ?'),
  countReadyBehind: row(
    `SELECT target, COUNT(*) AS rows FROM ordering_followers WHERE due_at <= ${KNOWN_TIME} GROUP BY target`,
  ),
  countScheduledBehind: row(
    `SELECT target, COUNT(*) AS rows FROM ordering_followers WHERE due_at > ${KNOWN_TIME} GROUP BY target`,
  ),
  countStuck: row(
    `SELECT ordering_heads.target, SUM(${FOLLOWERS_OF_HEAD}) AS rows FROM ${STUCK} GROUP BY ordering_heads.target`,
  ),
  longestStuck: row(
    `SELECT ordering_heads.target, ordering_heads.ordering_key, ordering_heads.request_id, ${FOLLOWERS_OF_HEAD} AS followers,
       COALESCE(CASE task_state.state WHEN 'dead' THEN NULL ELSE task_state.unknown_since END, task_state.updated_at) AS since
     FROM ${STUCK} ORDER BY since, ordering_heads.request_id LIMIT +?`,
  ),
} as const
