// Schema version 7: deadlines, and ranks that age. The columns are added without a row being rewritten, and both tables start empty.
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
`
