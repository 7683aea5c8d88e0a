// Schema version 5: limits that targets share, and pauses that end by themselves, of a target or of a shared bucket. Both tables hold
// a row for each of a few names; nothing of what was there is touched. A pause has one row for each of its causes, since one must
// not end the other's.
export const SHARED_LIMITS = `
CREATE TABLE buckets (
  bucket TEXT NOT NULL PRIMARY KEY,
  tokens REAL NOT NULL,
  tokens_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE bucket_members (
  target TEXT NOT NULL PRIMARY KEY,
  bucket TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE timed_pauses (
  scope TEXT NOT NULL CHECK (scope = 'target' OR scope = 'bucket'),
  name TEXT NOT NULL,
  cause TEXT NOT NULL,
  since INTEGER NOT NULL,
  until INTEGER NOT NULL,
  told_by TEXT NOT NULL,
  ramp_ms INTEGER NOT NULL,
  begun INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (scope, name, cause)
) STRICT, WITHOUT ROWID;
`
