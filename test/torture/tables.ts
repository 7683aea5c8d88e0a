// The file as somebody with a SQLite shell reads it, and whether its tables say the same of each request.
import Database from 'better-sqlite3'

export interface Row {
  readonly requestId: number
  readonly target: string
  readonly state: string
  readonly taskId: string | null
  readonly reason: string | null
  readonly idempotencyKey: string | null
  readonly doubtfulAttempts: string
  readonly frozen: string | null
  readonly cancelRequested: boolean
  readonly events: readonly {
    readonly kind: string
    readonly to: string | null
    readonly reason: string | null
    readonly detail: string | null
  }[]
}

export interface Tables {
  readonly rows: readonly Row[]
  readonly torn: readonly string[]
}

/** Each finds rows that cannot be there. */
const TORN: Readonly<Record<string, string>> = {
  'is queued, and its state says otherwise': `SELECT queue.request_id FROM queue JOIN task_state USING (request_id)
    WHERE state <> 'queued'`,
  'is queued, and its request is gone': `SELECT request_id FROM queue WHERE request_id NOT IN (SELECT request_id FROM requests)`,
  'is queued twice': `SELECT request_id FROM queue GROUP BY request_id HAVING COUNT(*) > 1`,
  'is owed, and in no queue': `SELECT requests.request_id FROM requests LEFT JOIN task_state USING (request_id)
    WHERE COALESCE(state, 'queued') = 'queued' AND requests.request_id NOT IN (SELECT request_id FROM queue)`,
  'is in doubt, and its payload is gone': `SELECT request_id FROM task_state WHERE state IN ('invoking', 'unknown', 'held')
    AND request_id NOT IN (SELECT request_id FROM requests)`,
  'is submitted, and still owed': `SELECT request_id FROM task_state JOIN requests USING (request_id) WHERE state = 'submitted'`,
  'has ended, and is in doubt or leased': `SELECT request_id FROM task_state
    WHERE state IN ('submitted', 'dead', 'canceled') AND (doubtful_attempts <> '' OR lease_owner IS NOT NULL)`,
  'is not in the ledger': `SELECT request_id FROM task_state WHERE state <> 'canceled'
    AND request_id NOT IN (SELECT request_id FROM logical_hashes WHERE request_id IS NOT NULL)`,
  'is in the ledger only': `SELECT request_id FROM logical_hashes WHERE request_id NOT IN (SELECT request_id FROM requests)
    AND request_id NOT IN (SELECT request_id FROM task_state)`,
  'has an orphan, though nothing happened twice': 'SELECT request_id FROM orphans',
}

export function readTables(path: string): Tables {
  const db = new Database(path, { fileMustExist: true })
  try {
    const integrity = db.pragma('integrity_check', { simple: true })
    db.exec(`CREATE TEMP VIEW queue AS SELECT request_id FROM main.ready UNION ALL SELECT request_id FROM main.waiting`)
    return {
      rows: readRows(db),
      torn: [
        ...(integrity === 'ok' ? [] : [`the file is damaged: ${integrity}`]),
        ...Object.entries(TORN).flatMap(([what, sql]) =>
          (db.prepare(sql).pluck().all() as number[]).map((requestId) => `request ${requestId} ${what}`),
        ),
      ],
    }
  } finally {
    db.close()
  }
}

function readRows(db: Database.Database): Row[] {
  const events = db.prepare(
    'SELECT kind, to_state AS "to", reason, detail FROM events WHERE request_id = ? ORDER BY event_id',
  )
  const rows = db
    .prepare(
      `SELECT view.request_id AS requestId, view.target, view.state, view.task_id AS taskId, view.reason,
         task_state.idempotency_key AS idempotencyKey, task_state.doubtful_attempts AS doubtfulAttempts, task_state.frozen,
         task_state.cancel_requested AS cancelRequested
       FROM request_overview AS view LEFT JOIN task_state USING (request_id) ORDER BY request_id`,
    )
    .all() as (Omit<Row, 'events' | 'cancelRequested'> & { cancelRequested: number | null })[]
  return rows.map((row) => ({
    ...row,
    cancelRequested: row.cancelRequested === 1,
    events: events.all(row.requestId) as Row['events'],
  }))
}
