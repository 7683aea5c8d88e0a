// Schema version 1. Layout as measured: a narrow claim table that leased and future rows leave, the payload apart,
// the logical hash in a ledger, the lease in task_state. Derived logical hashes are 32-byte blobs, given ones are text.
export const CORE_SCHEMA = `
CREATE TABLE store (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  schema_version INTEGER NOT NULL,
  namespace TEXT NOT NULL,
  incarnation TEXT NOT NULL,
  high_water_at INTEGER NOT NULL
) STRICT;

CREATE TABLE requests (
  request_id INTEGER PRIMARY KEY AUTOINCREMENT,
  target TEXT NOT NULL,
  logical_hash ANY NOT NULL,
  priority INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  dedupe TEXT NOT NULL CHECK (dedupe IN ('always', 'live', 'none')),
  created_at INTEGER NOT NULL,
  payload TEXT NOT NULL
) STRICT;

CREATE TABLE ready (
  target TEXT NOT NULL,
  rank INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  request_id INTEGER NOT NULL,
  PRIMARY KEY (target, rank, due_at, request_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE waiting (
  due_at INTEGER NOT NULL,
  request_id INTEGER NOT NULL,
  target TEXT NOT NULL,
  rank INTEGER NOT NULL,
  PRIMARY KEY (due_at, request_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE logical_hashes (
  hash BLOB NOT NULL PRIMARY KEY,
  payload_hash BLOB,
  request_id INTEGER,
  generation INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE task_state (
  request_id INTEGER PRIMARY KEY,
  state TEXT NOT NULL CHECK (state IN ('queued', 'invoking', 'unknown', 'held', 'submitted', 'succeeded', 'failed',
    'expired', 'lost', 'dead', 'canceled')),
  target TEXT NOT NULL,
  target_version TEXT,
  logical_hash ANY NOT NULL,
  priority INTEGER NOT NULL,
  task_id TEXT,
  version INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  nonce TEXT NOT NULL,
  generation INTEGER NOT NULL,
  idempotency_key TEXT,
  attempts INTEGER NOT NULL,
  replays INTEGER NOT NULL DEFAULT 0,
  backoff_step INTEGER NOT NULL DEFAULT 0,
  doubtful_attempts TEXT NOT NULL DEFAULT '',
  executed INTEGER NOT NULL DEFAULT 0,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  abandoned INTEGER NOT NULL DEFAULT 0,
  lease_owner TEXT,
  lease_until INTEGER,
  started_at INTEGER,
  ended_at INTEGER,
  is_end_observed INTEGER NOT NULL DEFAULT 0,
  unknown_since INTEGER,
  next_check_at INTEGER,
  misses INTEGER NOT NULL DEFAULT 0,
  last_miss_at INTEGER,
  older_answer TEXT,
  reason TEXT,
  evidence TEXT,
  frozen TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  CHECK (state <> 'invoking' OR (task_id IS NULL AND lease_until IS NOT NULL AND attempt > 0 AND frozen IS NOT NULL)),
  CHECK (state <> 'queued' OR (doubtful_attempts = '' AND task_id IS NULL)),
  CHECK (state <> 'dead' OR doubtful_attempts = '' OR abandoned = 1),
  CHECK (state <> 'unknown' OR next_check_at IS NOT NULL)
) STRICT;
CREATE INDEX task_state_invoking ON task_state (lease_until, target) WHERE state = 'invoking';
CREATE INDEX task_state_unknown ON task_state (next_check_at) WHERE state = 'unknown';
CREATE INDEX task_state_tracked ON task_state (next_check_at) WHERE state = 'submitted' AND next_check_at IS NOT NULL;
CREATE INDEX task_state_attention ON task_state (state, request_id) WHERE state IN ('unknown', 'held', 'dead', 'canceled');

CREATE TABLE orphans (
  orphan_id INTEGER PRIMARY KEY AUTOINCREMENT,
  request_id INTEGER NOT NULL,
  target TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  task_id TEXT NOT NULL,
  found_at INTEGER NOT NULL,
  evidence TEXT,
  UNIQUE (request_id, task_id)
) STRICT;

CREATE TABLE events (
  event_id INTEGER PRIMARY KEY AUTOINCREMENT,
  request_id INTEGER,
  target TEXT,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  from_state TEXT,
  to_state TEXT,
  attempt INTEGER,
  actor TEXT NOT NULL,
  reason TEXT,
  detail TEXT
) STRICT;
CREATE INDEX events_request ON events (request_id) WHERE request_id IS NOT NULL;

CREATE TABLE targets (
  target TEXT NOT NULL PRIMARY KEY,
  paused_at INTEGER,
  paused_by TEXT,
  pause_reason TEXT,
  tokens REAL,
  tokens_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE target_versions (
  target TEXT NOT NULL,
  version TEXT NOT NULL,
  description TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (target, version)
) STRICT, WITHOUT ROWID;
`
