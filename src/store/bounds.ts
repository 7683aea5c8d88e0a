// What one step does at most, so that it never holds a loop or a lock for long: the same of both engines, since the rules count by it
// what may be left.

/** Of one turn. */
export const PROMOTE_A_TURN = 200
export const EXPIRE_A_TURN = 200
export const DEADLINES_A_TURN = 100
export const MOVED_A_TURN = 200
/** Of more targets, a turn looks at as many open lanes as it can need, and the next goes on behind them. */
export const LANES_A_TURN = 64
/** Rows of targets that bear no more for now, which are passed over for others. */
export const PASSED_OVER_A_TURN = 200

/** Of one step of maintenance: what it reads, and what one transaction removes or puts in doubt. */
export const SLICE_ROWS = 1000
export const REMOVALS_A_STEP = 200
export const DOUBTED_A_SLICE = 200

/** Of a status. */
export const SHOWN_KEYS = 10
export const SHOWN_GROUPS = 3
