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
`
