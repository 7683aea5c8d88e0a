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
`
