// Schema version 3: whether the store has claimed since it keeps a record of calls beside itself.
export const HAS_CALLED = `
ALTER TABLE store ADD COLUMN has_called INTEGER NOT NULL DEFAULT 0;
`
