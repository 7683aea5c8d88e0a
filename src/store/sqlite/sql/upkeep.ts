// What a purge removes, and what is kept for a time.
import { row, value } from './text.ts'

/** What a purge may remove. The DELETE itself says it, whatever was read before: whoever changes the row first wins. */
const PURGEABLE = `
  state IN ('submitted', 'succeeded', 'failed', 'expired', 'lost', 'dead', 'canceled')
  AND state IN (SELECT value FROM json_each(:states))
  AND (:targets IS NULL OR target IN (SELECT value FROM json_each(:targets)))
  AND updated_at <= :before
  AND (state <> 'submitted' OR next_check_at IS NULL)
  AND (doubtful_attempts = '' OR abandoned = 1)
  AND (abandoned = 0 OR :abandoned = 1)
  AND NOT EXISTS (SELECT 1 FROM orphans WHERE orphans.request_id = task_state.request_id)`

export const UPKEEP_SQL = {
  // purge
  // A slice in id order from the table itself: no index and no sorting, however many rows there are.
  purgeSlice: row(
    `SELECT request_id, state, (${PURGEABLE}) AS is_purgeable,
       CASE
         WHEN :targets IS NOT NULL AND target NOT IN (SELECT value FROM json_each(:targets)) THEN NULL
         WHEN state IN ('invoking', 'unknown', 'held') THEN 'inDoubt'
         WHEN state NOT IN (SELECT value FROM json_each(:states)) THEN NULL
         WHEN updated_at > :before THEN 'tooRecent'
         WHEN state = 'submitted' AND next_check_at IS NOT NULL THEN 'tracked'
         WHEN abandoned = 1 AND :abandoned = 0 THEN 'abandoned'
         WHEN doubtful_attempts <> '' AND abandoned = 0 THEN 'inDoubt'
         ELSE 'orphan'
       END AS kept_for
     FROM task_state WHERE request_id > :after ORDER BY request_id LIMIT +:limit`,
  ),
  lastTaskStateId: value('SELECT MAX(request_id) FROM task_state'),
  purgeIfEnded: row(
    `DELETE FROM task_state WHERE request_id = :id AND ${PURGEABLE}
       RETURNING state, target, logical_hash, abandoned, idempotency_key, doubtful_attempts`,
  ),
  purgeRequest: row(
    'DELETE FROM requests WHERE request_id = ? RETURNING due_at, priority, ordering_key, group_key, octet_length(payload) AS bytes',
  ),
  purgeEvents: row('DELETE FROM events WHERE request_id = ?'),
  purgeKeptPayload: value('DELETE FROM kept_payloads WHERE request_id = ? RETURNING octet_length(payload)'),

  // kept payloads
  keepPayload: row(
    `INSERT INTO kept_payloads (request_id, target, settled_at, payload)
     SELECT request_id, target, ?, payload FROM requests WHERE request_id = ? ON CONFLICT DO NOTHING`,
  ),
  keptPayload: value('SELECT payload FROM kept_payloads WHERE request_id = ?'),
  keptPastAge: value(
    'SELECT request_id FROM kept_payloads WHERE target = ? AND settled_at <= ? ORDER BY settled_at LIMIT +?',
  ),
  countKeptPastAge: value('SELECT COUNT(*) FROM kept_payloads WHERE target = ? AND settled_at <= ?'),
} as const
