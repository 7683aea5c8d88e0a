// What a store says of itself, requests on their way into the queue and out of it, and the targets they go to.
import { AGED_FROM } from '../../../core/ranking.ts'
import { row, value } from './text.ts'

/** The rank of a request by the ranking of its target; as `core/ranking.ts` has it. */
function rankBy(target: string, dueAt: string, priority: string): string {
  return `COALESCE((SELECT ${dueAt} - ${priority} * aging_ms + ${AGED_FROM} FROM rankings WHERE target = ${target}), -${priority})`
}

/** The place behind all groups of a target. */
function placeBehind(target: string): string {
  return `(SELECT COALESCE(MAX(place), 0) + 1 FROM group_rotation WHERE target = ${target})`
}

export const QUEUE_SQL = {
  // store
  schemaVersion: value('SELECT schema_version FROM store WHERE id = 1'),
  // And what a turn would else ask in statements of their own.
  facts: row(
    `SELECT schema_version, namespace, incarnation, high_water_at, has_called, clock_ahead_ms,
       (SELECT MIN(expires_at) FROM expiries) AS next_expiry_at, EXISTS (SELECT 1 FROM rankings) AS is_ranked
     FROM store WHERE id = 1`,
  ),
  // Rises strictly with every commit that claims, so that a store put back from a copy can be told; and with every other that
  // moves a row, so that a clock set back afterwards is noticed.
  raiseHighWater: row(
    'UPDATE store SET high_water_at = MAX(high_water_at + :by, :now), has_called = MAX(has_called, :by) WHERE id = 1',
  ),
  setClockAhead: row('UPDATE store SET clock_ahead_ms = ? WHERE id = 1'),
  setIncarnation: row('UPDATE store SET incarnation = ? WHERE id = 1'),
  dataVersion: value('PRAGMA data_version'),

  // enqueue
  insertRequest: row(
    `INSERT INTO requests (target, logical_hash, priority, due_at, generation, dedupe, created_at, payload, expires_at, ordering_key, group_key)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ),
  // One insert-on-conflict decides whose a new hash is. Changes nothing where the ledger has it: then `claimFreeHash`.
  insertHash: row(
    `INSERT INTO logical_hashes (hash, payload_hash, request_id, generation) VALUES (?, ?, ?, 1)
       ON CONFLICT (hash) DO NOTHING`,
  ),
  // No row comes back where a request holds it.
  claimFreeHash: value(
    `UPDATE logical_hashes SET payload_hash = ?, request_id = ?, generation = generation + 1
       WHERE hash = ? AND request_id IS NULL RETURNING generation`,
  ),
  findHash: row('SELECT request_id, payload_hash FROM logical_hashes WHERE hash = ?'),
  freeHashIfOwned: row('UPDATE logical_hashes SET request_id = NULL WHERE hash = ? AND request_id = ?'),
  raiseGeneration: value('UPDATE logical_hashes SET generation = generation + 1 WHERE hash = ? RETURNING generation'),
  deleteRequest: row('DELETE FROM requests WHERE request_id = ?'),
  setRequestGeneration: row('UPDATE requests SET generation = ? WHERE request_id = ?'),

  // queue
  // What is enqueued says everything itself; of what comes back to the queue, its row does.
  insertReady: row(
    `INSERT INTO ready (target, group_key, rank, due_at, request_id) VALUES (?, ?, ${rankBy('?', '?', '?')}, ?, ?)`,
  ),
  insertReadyOf: row(
    `INSERT INTO ready (target, group_key, rank, due_at, request_id)
     SELECT target, COALESCE(group_key, ''), ${rankBy('requests.target', 'requests.due_at', 'requests.priority')}, due_at, request_id
     FROM requests WHERE request_id = ?`,
  ),
  // Rows that wait keep their rank by priority: which ranking counts is known when they come due.
  insertWaiting: row('INSERT INTO waiting (due_at, request_id, target, rank) VALUES (?, ?, ?, ?)'),
  insertWaitingOf: row(
    `INSERT INTO waiting (due_at, request_id, target, rank)
     SELECT due_at, request_id, target, -priority FROM requests WHERE request_id = ?`,
  ),
  promote: row(
    `INSERT INTO ready (target, group_key, rank, due_at, request_id)
     SELECT target, ?, ${rankBy('waiting.target', 'waiting.due_at', '(-waiting.rank)')}, due_at, request_id
     FROM waiting WHERE due_at = ? AND request_id = ?`,
  ),
  // By whichever ranking of its target it stands there.
  deleteReady: row(
    `DELETE FROM ready WHERE target = :target AND group_key = :group AND due_at = :dueAt AND request_id = :id AND rank IN (
       SELECT -:priority
       UNION ALL SELECT :dueAt - :priority * aging_ms + ${AGED_FROM} FROM rankings WHERE target = :target
       UNION ALL SELECT :dueAt - :priority * former.value + ${AGED_FROM}
         FROM rankings, json_each(rankings.formers) AS former WHERE rankings.target = :target)`,
  ),
  deleteWaiting: row('DELETE FROM waiting WHERE due_at = ? AND request_id = ?'),
  insertExpiry: row('INSERT INTO expiries (expires_at, request_id) VALUES (?, ?)'),
  deleteExpiry: row('DELETE FROM expiries WHERE expires_at = ? AND request_id = ?'),
  expiredRequests: value(
    'SELECT request_id FROM expiries WHERE expires_at <= ? ORDER BY expires_at, request_id LIMIT +?',
  ),
  setExpiresAt: row('UPDATE requests SET expires_at = ? WHERE request_id = ?'),
  setPriority: row('UPDATE requests SET priority = ? WHERE request_id = ?'),
  setDueAt: row('UPDATE requests SET due_at = ? WHERE request_id = ?'),
  // Changes nothing where others may go before it: then `ordering.ts` says whose turn it is.
  setDueAtUnlessOrdered: row('UPDATE requests SET due_at = ? WHERE request_id = ? AND ordering_key IS NULL'),
  dueWaiting: row(
    `SELECT due_at, request_id, target,
       (SELECT group_key FROM requests WHERE requests.request_id = waiting.request_id) AS group_key
     FROM waiting WHERE due_at <= ? ORDER BY due_at, request_id LIMIT +?`,
  ),
  nextWaitingAt: value('SELECT MIN(due_at) FROM waiting'),
  nextExpiryAt: value('SELECT MIN(expires_at) FROM expiries'),
  laneHead: row(
    `SELECT target, rank, due_at, request_id FROM ready
     WHERE target = ? AND group_key = ? AND (rank, due_at, request_id) > (?, ?, ?)
     ORDER BY rank, due_at, request_id LIMIT +?`,
  ),

  // groups
  isGrouped: value('SELECT EXISTS (SELECT 1 FROM group_rotation)'),
  groupsAfter: row(
    'SELECT place, group_key FROM group_rotation WHERE target = ? AND place > ? ORDER BY place LIMIT +?',
  ),
  enterRotation: row(
    `INSERT INTO group_rotation (target, place, group_key) VALUES (:target, ${placeBehind(':target')}, :group)
     ON CONFLICT (target, group_key) DO NOTHING`,
  ),
  enterRotationOf: row(
    `INSERT INTO group_rotation (target, place, group_key) SELECT target, ${placeBehind('requests.target')}, group_key FROM requests
     WHERE request_id = :id AND group_key IS NOT NULL ON CONFLICT (target, group_key) DO NOTHING`,
  ),
  // Requests without a group, once there are others beside them.
  enterRotationTogether: row(
    `INSERT INTO group_rotation (target, place, group_key) SELECT :target, ${placeBehind(':target')}, ''
     WHERE EXISTS (SELECT 1 FROM group_rotation WHERE target = :target)
       AND EXISTS (SELECT 1 FROM ready WHERE target = :target AND group_key = '')
     ON CONFLICT (target, group_key) DO NOTHING`,
  ),
  goBehindOthers: row(
    `UPDATE group_rotation SET place = ${placeBehind(':target')} WHERE target = :target AND group_key = :group`,
  ),
  leaveRotation: row(
    `DELETE FROM group_rotation WHERE target = :target AND group_key = :group
       AND NOT EXISTS (SELECT 1 FROM ready WHERE target = :target AND group_key = :group)`,
  ),

  // rankings
  rankings: row('SELECT target, aging_ms, formers, moved FROM rankings'),
  saveRanking: row(
    `INSERT INTO rankings (target, aging_ms, formers, moved) VALUES (?, ?, ?, ?)
     ON CONFLICT (target) DO UPDATE SET aging_ms = excluded.aging_ms, formers = excluded.formers, moved = excluded.moved`,
  ),
  deleteRanking: row('DELETE FROM rankings WHERE target = ?'),
  ranksAfter: row(
    `SELECT ready.group_key, ready.rank, ready.due_at, ready.request_id,
       ${rankBy('ready.target', 'ready.due_at', 'requests.priority')} AS wanted
     FROM ready JOIN requests ON requests.request_id = ready.request_id
     WHERE ready.target = ? AND (ready.group_key, ready.rank, ready.due_at, ready.request_id) > (?, ?, ?, ?)
     ORDER BY ready.group_key, ready.rank, ready.due_at, ready.request_id LIMIT +?`,
  ),
  moveRank: row(
    'UPDATE ready SET rank = ? WHERE target = ? AND group_key = ? AND rank = ? AND due_at = ? AND request_id = ?',
  ),

  // targets
  pausedTargets: value('SELECT target FROM targets WHERE paused_at IS NOT NULL'),
  targetRows: row('SELECT * FROM targets ORDER BY target'),
  pauseOf: row('SELECT paused_at, paused_by, pause_reason FROM targets WHERE target = ? AND paused_at IS NOT NULL'),
  pauseTarget: row(
    `INSERT INTO targets (target, paused_at, paused_by, pause_reason) VALUES (?, ?, ?, ?)
     ON CONFLICT (target) DO UPDATE SET paused_at = excluded.paused_at, paused_by = excluded.paused_by,
       pause_reason = excluded.pause_reason WHERE paused_at IS NULL`,
  ),
  resumeTarget: row(
    `UPDATE targets SET paused_at = NULL, paused_by = NULL, pause_reason = NULL WHERE target = ? AND paused_at IS NOT NULL`,
  ),
} as const
