// Schema version 3: whether the store has claimed since it keeps a record of calls beside itself, and how far steady time is
// ahead of a wall clock that was set back.
export const CALLS_AND_CLOCK = `
ALTER TABLE store ADD COLUMN has_called INTEGER NOT NULL DEFAULT 0;
ALTER TABLE store ADD COLUMN clock_ahead_ms INTEGER NOT NULL DEFAULT 0;
`
