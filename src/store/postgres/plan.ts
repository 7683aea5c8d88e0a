// How functions reach their rows.

/**
 * Whatever the statistics say, which know nothing of a queue that was empty a minute ago: rows are reached by their index, one by one.
 * And whatever the session says, bytes are told in one way.
 */
export const BY_INDEX = `SET enable_seqscan TO off SET enable_hashjoin TO off SET enable_mergejoin TO off SET enable_bitmapscan TO off
  SET jit TO off SET plan_cache_mode TO force_generic_plan SET bytea_output TO hex`
