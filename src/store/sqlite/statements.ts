// The SQL texts that are prepared once a connection, named for what they do. Time is always a parameter.
// Each UPDATE of a row in flight names the state or version it leaves: zero changes means that somebody else was first.
// LIMIT takes its parameter behind a plus: SQLite looks at the value of a bare one to plan, and so plans anew at each bind.
import type Database from 'better-sqlite3'
import { fingerprintOf } from '../../core/prepared-call.ts'
import { thaw } from './rows.ts'

const TASK_STATE_COLUMNS = [
  'request_id', 'state', 'target', 'target_version', 'logical_hash', 'priority', 'task_id', 'version', 'attempt', 'nonce',
  'generation', 'idempotency_key', 'attempts', 'replays', 'backoff_step', 'doubtful_attempts', 'executed',
  'cancel_requested', 'abandoned', 'lease_owner', 'lease_until', 'started_at', 'ended_at', 'is_end_observed', 'unknown_since',
  'next_check_at', 'misses', 'last_miss_at', 'older_answer', 'reason', 'evidence', 'created_at', 'updated_at',
] // biome-ignore format: one name after another reads best
const ASSIGNMENTS = TASK_STATE_COLUMNS.filter((name) => name !== 'request_id').map((name) => `${name} = :${name}`)

interface Text {
  readonly text: string
  /** What comes back: an object, the first column alone, or all columns as a list (half the cost of an object). */
  readonly gives: 'row' | 'value' | 'cells'
}
const row = (text: string): Text => ({ text, gives: 'row' })
const value = (text: string): Text => ({ text, gives: 'value' })
const cells = (text: string): Text => ({ text, gives: 'cells' })

/** Says word for word what the index `task_state_attention` holds, so that it is used. */
export const NEEDS_ATTENTION = `(task_state.state = 'unknown' OR task_state.state = 'held' OR task_state.state = 'dead'
  OR task_state.state = 'canceled') = 1`

export const OVERVIEW_COLUMNS = `
  COALESCE(requests.request_id, task_state.request_id) AS request_id,
  COALESCE(task_state.target, requests.target) AS target,
  CASE WHEN COALESCE(task_state.state, 'queued') <> 'queued' THEN task_state.state
    WHEN EXISTS (SELECT 1 FROM waiting WHERE waiting.due_at = requests.due_at
      AND waiting.request_id = requests.request_id) THEN 'scheduled'
    ELSE 'ready' END AS state,
  task_state.task_id,
  COALESCE(task_state.logical_hash, requests.logical_hash) AS logical_hash,
  COALESCE(requests.priority, task_state.priority) AS priority,
  COALESCE(task_state.attempts, 0) AS attempts,
  COALESCE(task_state.attempt, 0) AS attempt,
  COALESCE(requests.generation, task_state.generation) AS generation,
  COALESCE(task_state.version, 0) AS version,
  requests.due_at,
  COALESCE(requests.created_at, task_state.created_at) AS created_at,
  COALESCE(task_state.updated_at, requests.created_at) AS updated_at,
  task_state.unknown_since,
  task_state.started_at,
  COALESCE(task_state.executed, 0) AS executed,
  task_state.older_answer IS NOT NULL AS has_older_answer,
  task_state.reason,
  task_state.evidence`

/** The view of one request by either table's primary key: the view `request_overview` would scan both. */
function overviewOf(where: string): string {
  const join = where.startsWith('requests')
    ? 'requests LEFT JOIN task_state ON task_state.request_id = requests.request_id'
    : 'task_state LEFT JOIN requests ON requests.request_id = task_state.request_id'
  return `SELECT ${OVERVIEW_COLUMNS} FROM ${join} WHERE ${where}`
}

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

/** Leases that are over, the longest first, in the order of their index. */
const EXPIRED = `state = 'invoking' AND lease_until <= :now ORDER BY lease_until, target, request_id LIMIT +:limit`

export const SQL = {
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
    `INSERT INTO requests (target, logical_hash, priority, due_at, generation, dedupe, created_at, payload)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
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
  dueWaiting: row(
    'SELECT due_at, request_id, target, rank FROM waiting WHERE due_at <= ? ORDER BY due_at, request_id LIMIT +?',
  ),
  nextWaitingAt: value('SELECT MIN(due_at) FROM waiting'),
  laneHead: row(
    `SELECT target, rank, due_at, request_id FROM ready
     WHERE target = ? AND (rank, due_at, request_id) > (?, ?, ?)
     ORDER BY rank, due_at, request_id LIMIT +?`,
  ),

  // What a turn has claimed, off the lane's head at once. What were enqueued meanwhile would have a higher id than any that was there.
  deleteReadyThrough: row(
    `DELETE FROM ready WHERE target = ? AND (rank, due_at, request_id) <= (?, ?, ?) AND request_id <= ?`,
  ),

  // claim
  claimable: cells(
    `SELECT CASE typeof(requests.logical_hash) WHEN 'blob' THEN 'v1:' || lower(hex(requests.logical_hash))
         ELSE requests.logical_hash END,
       requests.priority, requests.generation, requests.created_at, requests.payload,
       task_state.state, task_state.version, task_state.attempt, task_state.idempotency_key, task_state.target_version,
       task_state.frozen
     FROM requests LEFT JOIN task_state ON task_state.request_id = requests.request_id
     WHERE requests.request_id = ?`,
  ),
  insertInvoking: row(
    `INSERT INTO task_state (request_id, state, target, target_version, logical_hash, priority, version, attempt, nonce,
       generation, idempotency_key, attempts, doubtful_attempts, lease_owner, lease_until, started_at, frozen, created_at,
       updated_at)
     VALUES (?, 'invoking', ?, ?, (SELECT logical_hash FROM requests WHERE request_id = ?), ?, 1, 1, ?, ?, ?, 1, '1', ?, ?, ?, ?, ?, ?)`,
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

  // settle
  // The plain happy path in one statement; whatever else is true of the row goes the long way.
  submitIfInvoking: row(
    `UPDATE task_state SET state = 'submitted', task_id = ?, version = version + 1, doubtful_attempts = '', lease_owner = NULL, lease_until = NULL,
       ended_at = ?, next_check_at = ?, reason = NULL, evidence = ?, frozen = NULL, updated_at = ?
     WHERE request_id = ? AND attempt = ? AND nonce = ? AND state = 'invoking' AND attempt = 1 AND cancel_requested = 0`,
  ),
  // RETURNING fills a temporary table, which only a hash that is to be freed is worth.
  deleteUnlessLive: row(`DELETE FROM requests WHERE request_id = ? AND dedupe <> 'live'`),
  deleteLive: row('DELETE FROM requests WHERE request_id = ? RETURNING logical_hash, target'),
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
    `UPDATE task_state SET next_check_at = ? WHERE state = 'unknown' AND target = ? AND reason = 'target_paused'`,
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
    'DELETE FROM requests WHERE request_id = ? RETURNING due_at, priority, octet_length(payload) AS bytes',
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
  bucket: row('SELECT tokens, tokens_at AS at FROM targets WHERE target = ? AND tokens_at IS NOT NULL'),
  saveBucket: row(
    `INSERT INTO targets (target, tokens, tokens_at) VALUES (?, ?, ?)
     ON CONFLICT (target) DO UPDATE SET tokens = excluded.tokens, tokens_at = excluded.tokens_at`,
  ),

  // queries
  overviews: row(
    `${overviewOf('requests.request_id IN (SELECT value FROM json_each(:ids))')}
     UNION ${overviewOf('task_state.request_id IN (SELECT value FROM json_each(:ids))')}`,
  ),
  overview: row(`${overviewOf('requests.request_id = :id')} UNION ${overviewOf('task_state.request_id = :id')}`),
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
  countReady: row('SELECT target, COUNT(*) AS rows FROM ready GROUP BY target'),
  countWaiting: row('SELECT target, COUNT(*) AS rows FROM waiting GROUP BY target'),
  oldestReady: value('SELECT MIN(due_at) FROM ready'),
  oldestUnknown: value(`SELECT MIN(unknown_since) FROM task_state WHERE state = 'unknown'`),
  drainStatus: row(
    `WITH served AS (SELECT value AS target FROM json_each(:targets)),
       open AS (SELECT target FROM served WHERE target NOT IN (SELECT target FROM targets WHERE paused_at IS NOT NULL))
     SELECT EXISTS (SELECT 1 FROM ready WHERE target IN open)
         OR EXISTS (SELECT 1 FROM waiting WHERE due_at <= :horizon AND target IN open) AS queued,
       EXISTS (SELECT 1 FROM task_state WHERE state = 'invoking' AND target IN served AND updated_at <= :claimedBefore)
         OR EXISTS (SELECT 1 FROM task_state WHERE state = 'unknown' AND next_check_at <= :horizon AND target IN served
           AND NOT (reason IS 'target_paused' AND target NOT IN open)) AS in_doubt`,
  ),
  hasWork: value(
    `WITH open AS (SELECT value AS target FROM json_each(:targets)
           WHERE value NOT IN (SELECT target FROM targets WHERE paused_at IS NOT NULL))
       SELECT EXISTS (SELECT 1 FROM ready WHERE target IN open)
         OR EXISTS (SELECT 1 FROM waiting WHERE due_at <= :now)
         OR EXISTS (SELECT 1 FROM task_state WHERE state = 'unknown' AND next_check_at <= :now
           AND target IN (SELECT value FROM json_each(:targets)))
         OR EXISTS (SELECT 1 FROM task_state WHERE state = 'invoking' AND lease_until <= :now)`,
  ),
} as const

export type Statements = { readonly [Name in keyof typeof SQL]: Database.Statement }

/** Functions of ours that statements call. */
export function defineFunctions(db: Database.Database): void {
  db.function('fingerprint_of', { deterministic: true }, (frozen, payload) =>
    fingerprintOf(thaw(frozen as string, payload as string)),
  )
}

export function prepareStatements(db: Database.Database): Statements {
  defineFunctions(db)
  return prepareOnly(db, Object.keys(SQL) as (keyof Statements)[])
}

/** What an enqueue needs, for connections that are not ours. */
export const ENQUEUE_STATEMENTS = [
  'schemaVersion',
  'insertRequest',
  'insertHash',
  'claimFreeHash',
  'findHash',
  'deleteRequest',
  'setRequestGeneration',
  'insertReady',
  'insertWaiting',
  'overview',
] as const
export type EnqueueStatements = Pick<Statements, (typeof ENQUEUE_STATEMENTS)[number]>

export function prepareOnly<Name extends keyof Statements>(
  db: Database.Database,
  names: readonly Name[],
): Pick<Statements, Name> {
  const prepared = names.map((name) => {
    const { text, gives } = SQL[name]
    // A caller's connection may have been set to BigInts.
    const statement = db.prepare(text).safeIntegers(false)
    if (gives === 'cells') return [name, statement.raw()]
    return [name, gives === 'value' ? statement.pluck() : statement]
  })
  return Object.fromEntries(prepared) as Pick<Statements, Name>
}
