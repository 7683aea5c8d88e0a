// Schema version 7: what the calls of a target came to lately, where some failed. Open where `opened_at` is there; the pause that
// goes with it stands among the others.
export const BREAKERS = `
CREATE TABLE breakers (
  target TEXT NOT NULL PRIMARY KEY,
  failures_in_a_row INTEGER NOT NULL,
  counted_from INTEGER NOT NULL,
  counted_calls INTEGER NOT NULL,
  counted_failures INTEGER NOT NULL,
  opened_at INTEGER,
  reason TEXT,
  failed_probes INTEGER NOT NULL,
  probe_at INTEGER,
  probe_request_id INTEGER
) STRICT, WITHOUT ROWID;
`
