// Schema version 9: groups. `ready` is in the order of each group's own queue ('' of the requests without one); `group_rotation` says
// which group gives the next request: the one of the lowest place, which then goes behind the others. It holds a group exactly while
// that has something ready, and '' from when a claim first meets it beside groups. `ready` is written anew, and nothing else is.
import { HIGHEST_PLAIN_RANK } from '../../../core/ranking.ts'

export const GROUPS = `
ALTER TABLE requests ADD COLUMN group_key TEXT;
CREATE INDEX requests_group ON requests (group_key) WHERE group_key IS NOT NULL;

DROP INDEX ready_aged;
ALTER TABLE ready RENAME TO ready_before;
CREATE TABLE ready (
  target TEXT NOT NULL,
  group_key TEXT NOT NULL,
  rank INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  request_id INTEGER NOT NULL,
  PRIMARY KEY (target, group_key, rank, due_at, request_id)
) STRICT, WITHOUT ROWID;
INSERT INTO ready SELECT target, '', rank, due_at, request_id FROM ready_before ORDER BY target, rank, due_at, request_id;
DROP TABLE ready_before;
CREATE INDEX ready_aged ON ready (target, (due_at - rank), due_at) WHERE rank > ${HIGHEST_PLAIN_RANK};
UPDATE rankings SET moved = '["",-9007199254740991,0,0]' WHERE moved IS NOT NULL;

CREATE TABLE group_rotation (
  target TEXT NOT NULL,
  place INTEGER NOT NULL,
  group_key TEXT NOT NULL,
  PRIMARY KEY (target, place),
  UNIQUE (target, group_key)
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
  requests.group_key,
  CASE WHEN followers.request_id IS NOT NULL THEN
    (SELECT heads.request_id FROM ordering_heads AS heads
      WHERE heads.target = requests.target AND heads.ordering_key = requests.ordering_key) END AS blocked_by
FROM (SELECT request_id FROM requests UNION SELECT request_id FROM task_state) AS ids
LEFT JOIN requests ON requests.request_id = ids.request_id
LEFT JOIN task_state ON task_state.request_id = ids.request_id
LEFT JOIN ordering_followers AS followers ON followers.target = requests.target
  AND followers.ordering_key = requests.ordering_key AND followers.request_id = requests.request_id;
`
