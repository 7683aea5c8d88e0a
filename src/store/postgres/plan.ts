// How functions reach their rows, whatever the statistics say: plans are made once a session, of a queue that may have been empty a minute
// before and holds a million rows by now. No row is looked for by reading a whole table or a whole index, and no two tables are joined
// that could be read in the wrong order: a function either looks rows up by their keys, or reads one table at a time from the end of
// an index. `OFFSET 0` keeps a question of its own from being made a join.

const COMMON = `SET enable_seqscan TO off SET enable_hashjoin TO off SET enable_mergejoin TO off SET jit TO off
  SET plan_cache_mode TO force_generic_plan SET bytea_output TO hex`

/** A bitmap is made of keys that are asked for, never of a whole index. Of no use where many rows have a key, and few are wanted. */
export const BY_KEY = `${COMMON} SET enable_bitmapscan TO on SET enable_indexscan TO off SET enable_indexonlyscan TO off`

/** The first rows of one table, as an index has them. */
export const IN_ORDER = `${COMMON} SET enable_bitmapscan TO off SET enable_indexscan TO on SET enable_indexonlyscan TO on`
