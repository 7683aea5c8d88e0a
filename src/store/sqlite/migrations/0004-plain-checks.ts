// Schema version 4: the same tables with checks that cost nothing. For `x IN (...)` of more than two values SQLite fills a
// temporary tree at every write of a row, in a CHECK and in the WHERE of a partial index alike; alternatives are compared one by
// one, the usual first. ("= 1" keeps that index for those who say so: an alternative alone would offer it for each of its states,
// before the index by time.) SQLite alters no CHECK in place, so both tables are copied once: a file needs room for them twice.
// Ids go on where they were, also where every request has left.
export const PLAIN_CHECKS = `
CREATE TABLE requests_copy (
  request_id INTEGER PRIMARY KEY AUTOINCREMENT,
  target TEXT NOT NULL,
  logical_hash ANY NOT NULL,
  priority INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  dedupe TEXT NOT NULL CHECK (dedupe = 'always' OR dedupe = 'live' OR dedupe = 'none'),
  created_at INTEGER NOT NULL,
  payload TEXT NOT NULL
) STRICT;
INSERT INTO requests_copy SELECT * FROM requests;
DELETE FROM sqlite_sequence WHERE name = 'requests_copy';
INSERT INTO sqlite_sequence (name, seq) SELECT 'requests_copy', seq FROM sqlite_sequence WHERE name = 'requests';
DROP TABLE requests;
ALTER TABLE requests_copy RENAME TO requests;

CREATE TABLE task_state_copy (
  request_id INTEGER PRIMARY KEY,
  state TEXT NOT NULL CHECK (state = 'submitted' OR state = 'invoking' OR state = 'queued' OR state = 'unknown'
    OR state = 'held' OR state = 'succeeded' OR state = 'failed' OR state = 'expired' OR state = 'lost' OR state = 'dead'
    OR state = 'canceled'),
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
INSERT INTO task_state_copy SELECT * FROM task_state;
DROP TABLE task_state;
ALTER TABLE task_state_copy RENAME TO task_state;
CREATE INDEX task_state_invoking ON task_state (lease_until, target) WHERE state = 'invoking';
CREATE INDEX task_state_unknown ON task_state (next_check_at) WHERE state = 'unknown';
CREATE INDEX task_state_tracked ON task_state (next_check_at) WHERE state = 'submitted' AND next_check_at IS NOT NULL;
CREATE INDEX task_state_attention ON task_state (state, request_id)
  WHERE (state = 'unknown' OR state = 'held' OR state = 'dead' OR state = 'canceled') = 1;
`
