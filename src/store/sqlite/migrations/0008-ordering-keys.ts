// Schema version 8: ordering keys. `ordering_heads` says whose turn it is, one row for each key that owes something;
// `ordering_followers` holds those behind it, which are in neither `ready` nor `waiting`, so that claims never pass over them.
// `due_at` is null of those that are not queued; nothing promotes the others, and `since_at` is a time that surely has been. The
// column is the last of its table, so that no row is rewritten, and costs a request without a key no byte.
export const ORDERING_KEYS = `
ALTER TABLE requests ADD COLUMN ordering_key TEXT;

CREATE TABLE ordering_heads (
  target TEXT NOT NULL,
  ordering_key TEXT NOT NULL,
  request_id INTEGER NOT NULL,
  PRIMARY KEY (target, ordering_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE ordering_followers (
  target TEXT NOT NULL,
  ordering_key TEXT NOT NULL,
  request_id INTEGER NOT NULL,
  since_at INTEGER NOT NULL,
  due_at INTEGER,
  PRIMARY KEY (target, ordering_key, request_id)
) STRICT, WITHOUT ROWID;

DROP VIEW request_overview;
CREATE VIEW request_overview AS
SELECT ids.request_id,
  COALESCE(task_state.target, requests.target) AS target,
  CASE
    WHEN COALESCE(task_state.state, 'queued') <> 'queued' THEN task_state.state
    WHEN EXISTS (SELECT 1 FROM waiting WHERE waiting.due_at = requests.due_at
      AND waiting.request_id = requests.request_id) THEN 'scheduled'
    WHEN followers.due_at > MAX(followers.since_at, (SELECT high_water_at FROM store)) THEN 'scheduled'
    ELSE 'ready'
  END AS state,
  task_state.task_id,
  CASE typeof(COALESCE(task_state.logical_hash, requests.logical_hash))
    WHEN 'blob' THEN 'v1:' || lower(hex(COALESCE(task_state.logical_hash, requests.logical_hash)))
    ELSE COALESCE(task_state.logical_hash, requests.logical_hash)
  END AS logical_hash,
  COALESCE(requests.priority, task_state.priority) AS priority,
  COALESCE(task_state.attempts, 0) AS attempts,
  COALESCE(task_state.attempt, 0) AS attempt,
  COALESCE(requests.generation, task_state.generation) AS generation,
  COALESCE(task_state.version, 0) AS version,
  requests.due_at,
  COALESCE(requests.expires_at, task_state.expires_at) AS expires_at,
  COALESCE(task_state.created_at, requests.created_at) AS created_at,
  COALESCE(task_state.updated_at, requests.created_at) AS updated_at,
  task_state.reason,
  task_state.evidence,
  requests.ordering_key,
  CASE WHEN followers.request_id IS NOT NULL THEN
    (SELECT heads.request_id FROM ordering_heads AS heads
      WHERE heads.target = requests.target AND heads.ordering_key = requests.ordering_key) END AS blocked_by
FROM (SELECT request_id FROM requests UNION SELECT request_id FROM task_state) AS ids
LEFT JOIN requests ON requests.request_id = ids.request_id
LEFT JOIN task_state ON task_state.request_id = ids.request_id
LEFT JOIN ordering_followers AS followers ON followers.target = requests.target
  AND followers.ordering_key = requests.ordering_key AND followers.request_id = requests.request_id;
`
