// The store as somebody with an SQL shell reads it, and whether its tables say the same of each request.
import { askStore } from '../support/ask-store.ts'

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

const QUEUE = '(SELECT request_id FROM ready UNION ALL SELECT request_id FROM waiting) AS queue'

/** Each finds rows that cannot be there. */
const TORN: Readonly<Record<string, string>> = {
  'is queued, and its state says otherwise': `SELECT queue.request_id FROM ${QUEUE} JOIN task_state USING (request_id)
    WHERE state <> 'queued'`,
  'is queued, and its request is gone': `SELECT request_id FROM ${QUEUE} WHERE request_id NOT IN (SELECT request_id FROM requests)`,
  'is queued twice': `SELECT request_id FROM ${QUEUE} GROUP BY request_id HAVING COUNT(*) > 1`,
  'is owed, and in no queue': `SELECT requests.request_id FROM requests LEFT JOIN task_state USING (request_id)
    WHERE COALESCE(state, 'queued') = 'queued' AND requests.request_id NOT IN (SELECT request_id FROM ${QUEUE})`,
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

export async function readTables(location: string): Promise<Tables> {
  const torn: string[] = []
  for (const [what, sql] of Object.entries(TORN))
    for (const { request_id: requestId } of await askStore(location, sql))
      torn.push(`request ${String(requestId)} ${what}`)
  return { rows: await readRows(location), torn: [...(await damageOf(location)), ...torn] }
}

async function damageOf(location: string): Promise<string[]> {
  if (location.startsWith('postgres')) return []
  const [row] = await askStore(location, 'PRAGMA integrity_check')
  return row?.['integrity_check'] === 'ok' ? [] : [`the file is damaged: ${JSON.stringify(row)}`]
}

async function readRows(location: string): Promise<Row[]> {
  const events = new Map<number, Row['events'][number][]>()
  for (const event of await askStore(
    location,
    'SELECT request_id, kind, to_state AS "to", reason, detail FROM events WHERE request_id IS NOT NULL ORDER BY event_id',
  )) {
    const { request_id: requestId, ...told } = event as { request_id: number } & Row['events'][number]
    events.set(requestId, [...(events.get(requestId) ?? []), told])
  }
  const rows = (await askStore(
    location,
    `SELECT ids.request_id AS "requestId", COALESCE(task_state.target, requests.target) AS target,
       CASE WHEN COALESCE(task_state.state, 'queued') <> 'queued' THEN task_state.state
         WHEN EXISTS (SELECT 1 FROM waiting WHERE waiting.request_id = ids.request_id) THEN 'scheduled' ELSE 'ready' END AS state,
       task_state.task_id AS "taskId", task_state.reason, task_state.idempotency_key AS "idempotencyKey",
       task_state.doubtful_attempts AS "doubtfulAttempts", task_state.frozen, task_state.cancel_requested AS "cancelRequested"
     FROM (SELECT request_id FROM requests UNION SELECT request_id FROM task_state) AS ids
       LEFT JOIN requests ON requests.request_id = ids.request_id
       LEFT JOIN task_state ON task_state.request_id = ids.request_id ORDER BY ids.request_id`,
  )) as unknown as (Omit<Row, 'events' | 'cancelRequested'> & { cancelRequested: number | null })[]
  return rows.map((row) => ({
    ...row,
    cancelRequested: row.cancelRequested === 1,
    events: events.get(row.requestId) ?? [],
  }))
}
