// Schema version 2: payloads that outlive their request, for targets that ask for it. Nothing else ever writes here.
export const KEPT_PAYLOADS = `
CREATE TABLE kept_payloads (
  request_id INTEGER PRIMARY KEY,
  target TEXT NOT NULL,
  settled_at INTEGER NOT NULL,
  payload TEXT NOT NULL
) STRICT;
CREATE INDEX kept_payloads_age ON kept_payloads (target, settled_at);
`
