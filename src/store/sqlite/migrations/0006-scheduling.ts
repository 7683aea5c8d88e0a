// Schema version 6: deadlines, and ranks that age. The columns are added without a row being rewritten, and both tables start empty.
// `expiries` holds what is queued and has a deadline, and nothing else. `rankings` says what one step of priority is worth where
// that is waiting time; a target that is not in it is ranked by priority alone. Its rows may still stand by `formers` while `moved`
// says how far they have been moved: the rank, due time and id of the last.
import { HIGHEST_PLAIN_RANK } from '../../../core/ranking.ts'

export const SCHEDULING = `
ALTER TABLE requests ADD COLUMN expires_at INTEGER;
ALTER TABLE task_state ADD COLUMN expires_at INTEGER;

CREATE TABLE expiries (
  expires_at INTEGER NOT NULL,
  request_id INTEGER NOT NULL,
  PRIMARY KEY (expires_at, request_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE rankings (
  target TEXT NOT NULL PRIMARY KEY,
  aging_ms INTEGER,
  formers TEXT NOT NULL,
  moved TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX ready_aged ON ready (target, (due_at - rank), due_at) WHERE rank > ${HIGHEST_PLAIN_RANK};

DROP VIEW request_overview;
CREATE VIEW request_overview AS
SELECT ids.request_id,
  COALESCE(task_state.target, requests.target) AS target,
  CASE
    WHEN COALESCE(task_state.state, 'queued') <> 'queued' THEN task_state.state
    WHEN EXISTS (SELECT 1 FROM waiting WHERE waiting.due_at = requests.due_at
      AND waiting.request_id = requests.request_id) THEN 'scheduled'
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
  task_state.evidence
FROM (SELECT request_id FROM requests UNION SELECT request_id FROM task_state) AS ids
LEFT JOIN requests ON requests.request_id = ids.request_id
LEFT JOIN task_state ON task_state.request_id = ids.request_id;
`
