// What became of a transaction whose answer to COMMIT was lost: another session of the same server knows.
import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'

/**
 * `unanswered`: nobody could be asked, or it is still under way. `perhaps`: after a crash the number may have been given again, to
 * another transaction, which did commit. `unknowable`: nobody knows any more.
 */
export type Fate = 'committed' | 'aborted' | 'unanswered' | 'perhaps' | 'unknowable'

/** Of the server's life: other after each start, and after each crash, which resets the statistics. */
export const ERA_SQL = `pg_postmaster_start_time() || ' ' || COALESCE((SELECT stats_reset::text FROM pg_stat_bgwriter), '')`

/** Of the server's history: a promoted standby, and a copy put back, begin another. */
export const BRANCH_SQL = 'left(pg_walfile_name(pg_current_wal_lsn()), 8)'

const ASK_EVERY_MS = 200
const ANSWER_WITHIN_MS = 5000
const ASK = `SELECT pg_xact_status($1::text::xid8) AS status, ${BRANCH_SQL} AS branch, ${ERA_SQL} AS era`
/** The number is in the future: the crash took the transaction with it. */
const NEVER_HEARD = '22023'

export interface LostTicket {
  readonly xid: string | null
  /** Of the server's history: numbers of another branch are of other transactions. */
  readonly branch: string
  readonly era: string
}

/** @param forMs 0: asks once. */
export async function fateOf(pool: pg.Pool, ticket: LostTicket, forMs: number): Promise<Fate> {
  const until = performance.now() + forMs
  for (;;) {
    const fate = await askOnce(pool, ticket)
    if (fate !== 'unanswered' || performance.now() >= until) return fate
    await delay(ASK_EVERY_MS)
  }
}

async function askOnce(pool: pg.Pool, { xid, branch, era }: LostTicket): Promise<Fate> {
  try {
    const query = { text: ASK, values: [xid], query_timeout: ANSWER_WITHIN_MS } as pg.QueryConfig
    const { rows } = await pool.query<Record<'status' | 'branch' | 'era', string | null>>(query)
    const now = rows[0]
    if (now === undefined || now.branch !== branch || now.status === null) return 'unknowable'
    if (now.status === 'aborted') return 'aborted'
    // A session that has not noticed yet that nobody is there is still in progress; it ends by itself.
    if (now.status !== 'committed') return 'unanswered'
    return now.era === era ? 'committed' : 'perhaps'
  } catch (error) {
    // Else away, starting, full, or a standby that is not promoted yet.
    return (error as { code?: unknown }).code === NEVER_HEARD ? 'aborted' : 'unanswered'
  }
}
