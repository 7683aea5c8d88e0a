// What a turn does to a request that is called: claim, settle, investigate. Each UPDATE of a row in flight names the state or
// version it leaves: zero changes means that somebody else was first.
import { cells, row, value } from './text.ts'

const TASK_STATE_COLUMNS = [
  'request_id', 'state', 'target', 'target_version', 'logical_hash', 'priority', 'task_id', 'version', 'attempt', 'nonce',
  'generation', 'idempotency_key', 'attempts', 'replays', 'backoff_step', 'doubtful_attempts', 'executed',
  'cancel_requested', 'abandoned', 'lease_owner', 'lease_until', 'started_at', 'ended_at', 'is_end_observed', 'unknown_since',
  'next_check_at', 'misses', 'last_miss_at', 'older_answer', 'reason', 'evidence', 'created_at', 'updated_at', 'expires_at',
] // biome-ignore format: one name after another reads best
const ASSIGNMENTS = TASK_STATE_COLUMNS.filter((name) => name !== 'request_id').map((name) => `${name} = :${name}`)

/** Leases that are over, the longest first, in the order of their index. */
const EXPIRED = `state = 'invoking' AND lease_until <= :now ORDER BY lease_until, target, request_id LIMIT +:limit`

export const TURN_SQL = {
  // claim
  claimable: cells(
    `SELECT CASE typeof(requests.logical_hash) WHEN 'blob' THEN 'v1:' || lower(hex(requests.logical_hash))
         ELSE requests.logical_hash END,
       requests.priority, requests.generation, requests.created_at, requests.payload,
       task_state.state, task_state.version, task_state.attempt, task_state.idempotency_key, task_state.target_version,
       task_state.frozen, requests.expires_at
     FROM requests LEFT JOIN task_state ON task_state.request_id = requests.request_id
     WHERE requests.request_id = ?`,
  ),
  insertInvoking: row(
    `INSERT INTO task_state (request_id, state, target, target_version, logical_hash, priority, version, attempt, nonce,
       generation, idempotency_key, attempts, doubtful_attempts, lease_owner, lease_until, started_at, frozen, created_at,
       updated_at, expires_at)
     VALUES (?, 'invoking', ?, ?, (SELECT logical_hash FROM requests WHERE request_id = ?), ?, 1, 1, ?, ?, ?, 1, '1', ?, ?, ?, ?, ?, ?, ?)`,
  ),
  // A request that was queued again: its attempts surely had no effect.
  claimQueued: row(
    `UPDATE task_state SET state = 'invoking', version = version + 1, attempt = attempt + 1, attempts = attempts + 1,
       target_version = ?, priority = ?, nonce = ?, generation = ?, idempotency_key = ?, lease_owner = ?, lease_until = ?,
       started_at = COALESCE(started_at, ?), ended_at = NULL, is_end_observed = 0, unknown_since = NULL, next_check_at = NULL, misses = 0, last_miss_at = NULL,
       doubtful_attempts = attempt + 1, frozen = ?, updated_at = ?
     WHERE request_id = ? AND state = 'queued' AND version = ?`,
  ),
  invokingOf: value(`SELECT COUNT(*) FROM task_state WHERE state = 'invoking' AND target = ?`),
  // What a turn has claimed, off the lane's head at once. What is enqueued meanwhile has a higher id than any that was there.
  deleteReadyThrough: row(
    `DELETE FROM ready WHERE target = ? AND group_key = ? AND (rank, due_at, request_id) <= (?, ?, ?) AND request_id <= ?`,
  ),

  // settle
  // The plain happy path in one statement; whatever else is true of the row goes the long way.
  submitIfInvoking: row(
    `UPDATE task_state SET state = 'submitted', task_id = ?, version = version + 1, doubtful_attempts = '', lease_owner = NULL, lease_until = NULL,
       ended_at = ?, next_check_at = ?, reason = NULL, evidence = ?, frozen = NULL, updated_at = ?
     WHERE request_id = ? AND attempt = ? AND nonce = ? AND state = 'invoking' AND attempt = 1 AND cancel_requested = 0`,
  ),
  // RETURNING fills a temporary table, which only a hash that is to be freed, or a turn that is to be passed on, is worth.
  deleteIfPlain: row(`DELETE FROM requests WHERE request_id = ? AND dedupe <> 'live' AND ordering_key IS NULL`),
  deleteTelling: row('DELETE FROM requests WHERE request_id = ? RETURNING logical_hash, target, dedupe, ordering_key'),
  taskState: row('SELECT * FROM task_state WHERE request_id = ?'),
  saveIfVersion: row(
    `UPDATE task_state SET ${ASSIGNMENTS.join(', ')} WHERE request_id = :request_id AND version = :seen_version AND state = :seen_state`,
  ),
  insertTaskState: row(
    `INSERT INTO task_state (${TASK_STATE_COLUMNS.join(', ')}) VALUES (${TASK_STATE_COLUMNS.map((name) => `:${name}`).join(', ')})`,
  ),
  setFrozen: row('UPDATE task_state SET frozen = ? WHERE request_id = ?'),
  // A lease that has run out is nobody's any more, although nobody has said so yet.
  renewIfHeld: row(
    `UPDATE task_state SET lease_until = ? WHERE request_id = ? AND attempt = ? AND nonce = ? AND state = 'invoking' AND lease_owner = ?
       AND lease_until > ?`,
  ),
  // A lease that ran out permits investigation, never a call. Many end at once where a worker has died: one statement tells of
  // all of them, each in an event of its own.
  expiredLeases: value(`SELECT request_id FROM task_state WHERE ${EXPIRED}`),
  noteExpired: row(
    `INSERT INTO events (request_id, target, at, kind, from_state, to_state, attempt, actor, reason, detail)
     SELECT request_id, target, :now, 'unknown', 'invoking', 'unknown', attempt, :actor, 'lease_expired',
       json_object('leaseOwner', lease_owner, 'leaseUntil', lease_until,
         'call', json_object('claimedAt', updated_at, 'key', idempotency_key, 'fingerprint', fingerprint_of(frozen,
             (SELECT payload FROM requests WHERE requests.request_id = task_state.request_id)),
           'leaseOwner', lease_owner),
         'round', backoff_step)
     FROM task_state WHERE ${EXPIRED}`,
  ),
  expireIfInvoking: row(
    `UPDATE task_state SET state = 'unknown', version = version + 1, lease_owner = NULL, lease_until = NULL,
       ended_at = MAX(lease_until, COALESCE(ended_at, 0)), unknown_since = COALESCE(unknown_since, :now), next_check_at = :now,
       reason = 'lease_expired', updated_at = :now
     WHERE request_id = :id AND state = 'invoking'`,
  ),
  nextLeaseEnd: value(`SELECT MIN(lease_until) FROM task_state WHERE state = 'invoking'`),

  // investigate
  dueUnknown: row(
    `SELECT * FROM task_state WHERE state = 'unknown' AND next_check_at <= ?
       AND target IN (SELECT value FROM json_each(?)) ORDER BY next_check_at LIMIT +?`,
  ),
  dueTracked: row(
    `SELECT * FROM task_state WHERE state = 'submitted' AND next_check_at <= ?
       AND target IN (SELECT value FROM json_each(?)) ORDER BY next_check_at LIMIT +?`,
  ),
  nextUnknownAt: value(
    `SELECT MIN(next_check_at) FROM task_state WHERE state = 'unknown' AND target IN (SELECT value FROM json_each(?))`,
  ),
  nextTrackedAt: value(
    `SELECT MIN(next_check_at) FROM task_state WHERE state = 'submitted' AND next_check_at IS NOT NULL
       AND target IN (SELECT value FROM json_each(?))`,
  ),
  // A row in doubt of which nothing is known but its one attempt: its task may simply be adopted.
  plainDoubt: row(
    `SELECT attempt, backoff_step, updated_at, reason FROM task_state
     WHERE request_id = ? AND version = ? AND state = 'unknown' AND task_id IS NULL AND older_answer IS NULL
       AND cancel_requested = 0`,
  ),
  adoptIfUnknown: row(
    `UPDATE task_state SET state = 'submitted', task_id = ?, version = version + 1, doubtful_attempts = '', lease_owner = NULL,
       lease_until = NULL, ended_at = ?, unknown_since = NULL, next_check_at = ?, misses = 0, last_miss_at = NULL, reason = NULL,
       evidence = ?, frozen = NULL, updated_at = ?
     WHERE request_id = ? AND version = ? AND state = 'unknown'`,
  ),
  // The row leaves the head of its index until the lease is over; the version stays, so the first word fences.
  leaseCheck: row(
    `UPDATE task_state SET lease_owner = ?, lease_until = ?, next_check_at = ? WHERE request_id = ? AND state = ? AND version = ?`,
  ),
  releaseChecks: row(
    `UPDATE task_state SET lease_owner = NULL, lease_until = NULL, next_check_at = ?
       WHERE (state = 'unknown' OR (state = 'submitted' AND next_check_at IS NOT NULL)) AND lease_owner = ?`,
  ),
  // What waited only for its target to be open again.
  wakePaused: row(
    `UPDATE task_state SET next_check_at = :now WHERE state = 'unknown' AND (target = :target OR target IN (
         SELECT others.target FROM bucket_members JOIN bucket_members AS others USING (bucket)
         WHERE bucket_members.target = :target))
       AND (reason = 'target_paused' OR reason = 'told_to_wait' OR reason = 'breaker_open')`,
  ),
  payload: value('SELECT payload FROM requests WHERE request_id = ?'),
  description: value('SELECT description FROM target_versions WHERE target = ? AND version = ?'),
  saveDescription: row(
    'INSERT INTO target_versions (target, version, description, created_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
  ),

  // notes
  insertEvent: row(
    `INSERT INTO events (request_id, target, at, kind, from_state, to_state, attempt, actor, reason, detail)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ),
  insertOrphan: row(
    `INSERT INTO orphans (request_id, target, attempt, task_id, found_at, evidence) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (request_id, task_id) DO NOTHING`,
  ),
  deleteOrphanOf: row('DELETE FROM orphans WHERE request_id = ? AND task_id = ?'),
} as const
