// A store with as many rows as one likes, in seconds: the product makes the file, and plain SQL writes the rows that its enqueue
// and its claim would have written. Only the logical hashes are random; `checkFill` has the product itself read some of them.
import { deepStrictEqual } from 'node:assert'
import Database from 'better-sqlite3'
import type { Store } from '../../src/store/store.ts'
import { payloadOf } from './requests.ts'
import { driveStore } from './turns.ts'

export interface Fill {
  readonly ready: number
  /** Due in an hour. */
  readonly future: number
  /** Ready rows have these many, one after the other. */
  readonly priorities: number
  /** Rows that another worker is calling. */
  readonly leased: number
  /** Ready rows share these many ordering keys, one after the other: the first of each is queued. Absent: none has one. */
  readonly keys?: number
  /** Ready rows belong to so many groups, one after the other; absent: to none. */
  readonly groups?: number
  /** Ready rows belong to so many targets, one after the other; absent: all to one. */
  readonly targets?: number
}

const TARGET = 'render'
const HOUR_MS = 3_600_000

/** Names of the targets that it has rows of. */
export function targetsOf({ targets = 1 }: Pick<Fill, 'targets'>): readonly string[] {
  return targets === 1 ? [TARGET] : Array.from({ length: targets }, (_, i) => `${TARGET}-${i}`)
}

/** Leaves a file without a log, in which nobody has called yet. */
export async function fillStore(path: string, fill: Fill): Promise<void> {
  const { ready, future, priorities, leased, keys = 0, groups = 0, targets = 1 } = fill
  const { close } = await driveStore({ path, targets: targetsOf(fill) })
  await close()
  const db = new Database(path)
  db.pragma('journal_mode = DELETE')
  db.pragma('synchronous = OFF')
  db.pragma('cache_size = -262144')
  const now = Date.now()
  // Numbers are bound as reals.
  const addRequests = db.prepare(`
    WITH RECURSIVE orders (n) AS (SELECT CAST(:from AS INTEGER) UNION ALL SELECT n + 1 FROM orders WHERE n + 1 < :from + :count)
    INSERT INTO requests (target, logical_hash, priority, due_at, generation, dedupe, created_at, payload, ordering_key, group_key)
    SELECT '${TARGET}' || CASE WHEN :targets > 1 THEN '-' || (n % CAST(:targets AS INTEGER)) ELSE '' END, randomblob(32), n % CAST(:priorities AS INTEGER), CAST(:dueAt AS INTEGER) + n / 1000, 1, 'always', :now, ${payloadSql('n')},
      CASE WHEN :keys > 0 THEN 'customer-' || (n % CAST(:keys AS INTEGER)) END,
      CASE WHEN :groups > 0 THEN 'tenant-' || (n % CAST(:groups AS INTEGER)) END
    FROM orders WHERE :count > 0`)
  db.transaction(() => {
    addRequests.run({ from: 1, count: leased, priorities: 1, keys: 0, groups: 0, targets: 1, dueAt: now, now })
    addRequests.run({ from: leased + 1, count: ready, priorities, keys, groups, targets, dueAt: now, now })
    addRequests.run({
      from: leased + ready + 1,
      count: future,
      priorities: 1,
      keys: 0,
      groups: 0,
      targets: 1,
      dueAt: now + HOUR_MS,
      now,
    })
    const parts = { leased, ready }
    db.prepare(
      `INSERT INTO task_state (request_id, state, target, target_version, logical_hash, priority, version, attempt, nonce,
         generation, idempotency_key, attempts, doubtful_attempts, lease_owner, lease_until, started_at, frozen, created_at,
         updated_at)
       SELECT request_id, 'invoking', target, 'version', logical_hash, priority, 1, 1, '0123456789abcdef', 1, hex(randomblob(18)),
         1, '1', 'other:boot', due_at + ${HOUR_MS}, due_at, '["POST","http://127.0.0.1:9/renders",{},true,null]', due_at, due_at
       FROM requests WHERE request_id <= :leased`,
    ).run({ leased })
    db.exec(`INSERT INTO ordering_heads SELECT target, ordering_key, MIN(request_id) FROM requests
      WHERE ordering_key IS NOT NULL GROUP BY 1, 2`)
    db.exec(`INSERT INTO ordering_followers SELECT target, ordering_key, request_id, due_at, due_at FROM requests
      WHERE ordering_key IS NOT NULL AND request_id NOT IN (SELECT request_id FROM ordering_heads) ORDER BY 1, 2, 3`)
    db.prepare(
      `INSERT INTO ready SELECT target, COALESCE(group_key, ''), -priority, due_at, request_id FROM requests
       WHERE request_id > :leased AND request_id <= :leased + :ready
         AND request_id NOT IN (SELECT request_id FROM ordering_followers) ORDER BY 1, 2, 3, 4, 5`,
    ).run(parts)
    db.exec(`INSERT INTO group_rotation SELECT target, ROW_NUMBER() OVER (PARTITION BY target), group_key FROM (
      SELECT DISTINCT target, group_key FROM ready WHERE group_key <> '')`)
    db.prepare(
      `INSERT INTO waiting SELECT due_at, request_id, target, -priority FROM requests WHERE request_id > :leased + :ready
       ORDER BY 1, 2`,
    ).run(parts)
    db.exec(`INSERT INTO logical_hashes SELECT logical_hash, NULL, request_id, 1 FROM requests ORDER BY logical_hash`)
  })()
  db.close()
}

export function analyze(path: string): void {
  const db = new Database(path)
  db.exec('ANALYZE')
  db.close()
}

/** @throws where the product reads the rows as other than they were meant. */
export async function checkFill(store: Store, { ready, future, leased }: Fill): Promise<void> {
  const firsts = [
    { count: leased, id: 1, state: 'invoking' },
    { count: ready, id: leased + 1, state: 'ready' },
    { count: future, id: leased + ready + 1, state: 'scheduled' },
  ]
  for (const { count, id, state } of firsts.filter((part) => part.count > 0)) {
    for (const requestId of [id, id + count - 1]) {
      const found = await store.get(requestId)
      deepStrictEqual({ state: found?.state, payload: found?.payload }, { state, payload: payloadOf(requestId) })
    }
  }
}

/** `payloadOf` in SQL. */
function payloadSql(order: string): string {
  const { options, note } = payloadOf(1)
  return `json_object('order', ${order}, 'customer', 'customer-' || (${order} % 5000), 'title', 'Render of scene ' || ${order},
    'options', json('${JSON.stringify(options)}'), 'note', '${String(note)}')`
}
