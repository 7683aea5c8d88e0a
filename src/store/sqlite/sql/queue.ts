// What a store says of itself, requests on their way into the queue and out of it, and the targets they go to.
import { row, value } from './text.ts'

export const QUEUE_SQL = {
  // store
  schemaVersion: value('SELECT schema_version FROM store WHERE id = 1'),
  facts: row(
    'SELECT schema_version, namespace, incarnation, high_water_at, has_called, clock_ahead_ms FROM store WHERE id = 1',
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
    `INSERT INTO requests (target, logical_hash, priority, due_at, generation, dedupe, created_at, payload, ordering_key)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
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
  insertReady: row('INSERT INTO ready (target, rank, due_at, request_id) VALUES (?, ?, ?, ?)'),
  insertWaiting: row('INSERT INTO waiting (due_at, request_id, target, rank) VALUES (?, ?, ?, ?)'),
  deleteReady: row('DELETE FROM ready WHERE target = ? AND rank = ? AND due_at = ? AND request_id = ?'),
  deleteWaiting: row('DELETE FROM waiting WHERE due_at = ? AND request_id = ?'),
  setDueAt: row('UPDATE requests SET due_at = ? WHERE request_id = ?'),
  // Changes nothing where others may go before it: then `ordering.ts` says whose turn it is.
  setDueAtUnlessOrdered: row('UPDATE requests SET due_at = ? WHERE request_id = ? AND ordering_key IS NULL'),
  dueWaiting: row(
    'SELECT due_at, request_id, target, rank FROM waiting WHERE due_at <= ? ORDER BY due_at, request_id LIMIT +?',
  ),
  nextWaitingAt: value('SELECT MIN(due_at) FROM waiting'),
  laneHead: row(
    `SELECT target, rank, due_at, request_id FROM ready
     WHERE target = ? AND (rank, due_at, request_id) > (?, ?, ?)
     ORDER BY rank, due_at, request_id LIMIT +?`,
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
