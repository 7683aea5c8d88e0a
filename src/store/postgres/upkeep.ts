// Maintenance, and words that are no request's: what SQLite does row by row beside a worker, the server does in bounded statements.
import { randomUUID } from 'node:crypto'
import { DOUBTED_A_SLICE, REMOVALS_A_STEP, SLICE_ROWS } from '../bounds.ts'
import { doubtSlice } from '../sqlite/forgotten.ts'
import { type Slice as PurgeSlice, previewSlice, purgeSlice, type SliceRow, sliceOf } from '../sqlite/purge.ts'
import type { Statements } from '../sqlite/statements.ts'
import { ownerOf } from '../sqlite/turn-context.ts'
import type { Commit, Store } from '../store.ts'
import type { PurgeScope } from '../upkeep.ts'
import type { Database, Transaction, TransactOptions } from './connection.ts'
import { eventLockOf, type Saves } from './save.ts'
import type { Slice } from './slice.ts'
import { loadRows, type Rows, rowsAboutSql, type StoreRow } from './slice-rows.ts'
import { notify, type Watch } from './watch.ts'

type Upkeep = Pick<
  Store,
  | 'saveDescriptions'
  | 'releaseChecks'
  | 'pause'
  | 'resume'
  | 'doubtForgotten'
  | 'declareOwn'
  | 'purgeAfter'
  | 'dropKeptPayloads'
  | 'boundLog'
  | 'backup'
  | 'filesOf'
>

export interface Change {
  readonly commit: Commit
  /** A statement whose rows are the slice. */
  readonly text: string
  readonly values: readonly unknown[]
  readonly makesWork?: boolean
}

/** Of a transaction. */
export type Probed = Pick<TransactOptions<unknown>, 'beforeCommit' | 'committed'>

export interface UpkeepOptions {
  readonly db: Database
  /** Quoted. */
  readonly schema: string
  readonly slice: Slice
  readonly watch: Watch
  /** Tells of a commit right before and after it. */
  readonly probed: (commit: Commit) => Probed
  readonly save: Saves['save']
  checkOpen(): void
  checkVersion(rows: Rows): StoreRow
  /** Loads, runs the rules, saves. */
  change<T>(change: Change, work: (sql: Statements) => T): Promise<T>
}

interface NewEvent {
  readonly kind: string
  readonly target?: string
  readonly now: number
  readonly actor: string
  readonly reason?: string | null
  readonly detail?: unknown
}

export function createUpkeep(options: UpkeepOptions): Upkeep {
  const { db, schema: s, slice, watch, probed, checkOpen, checkVersion, change } = options
  const eventLock = eventLockOf(s)

  async function write<T>(commit: Commit, makesWork: boolean, work: (tx: Transaction) => Promise<T>): Promise<T> {
    checkOpen()
    const made = await db.transact(async (tx) => {
      checkVersion(await loadRows(tx, `SELECT 'store' AS t, to_json(x) AS r FROM ${s}.store x`, []))
      const result = await work(tx)
      if (makesWork) await notify(tx, s, commit)
      return result
    }, probed(commit))
    watch.committed(makesWork)
    return made
  }

  /** Ids of events are in the order of commits. */
  async function noteEvent(tx: Transaction, event: NewEvent): Promise<void> {
    const { target = null, now, kind, actor, reason = null, detail = null } = event
    await tx.query('SELECT pg_advisory_xact_lock($1::bigint)', [eventLock])
    await tx.query(
      `INSERT INTO ${s}.events (target, at, kind, actor, reason, detail) VALUES ($1, $2, $3, $4, $5, $6)`,
      [target, now, kind, actor, reason, detail === null ? null : JSON.stringify(detail)],
    )
  }

  return {
    saveDescriptions: (targets, now) =>
      write('describe', true, async (tx) => {
        for (const { name, version, description, bucket } of targets) {
          await tx.query(
            `INSERT INTO ${s}.target_versions (target, version, description, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
            [name, version, description, now],
          )
          if (bucket === undefined) await tx.query(`DELETE FROM ${s}.bucket_members WHERE target = $1`, [name])
          else
            await tx.query(
              `INSERT INTO ${s}.bucket_members (target, bucket) VALUES ($1, $2)
               ON CONFLICT (target) DO UPDATE SET bucket = excluded.bucket WHERE bucket_members.bucket <> excluded.bucket`,
              [name, bucket],
            )
        }
      }),
    releaseChecks: (worker, now) =>
      write('release', true, async (tx) => {
        await tx.query(
          `UPDATE ${s}.task_state SET lease_owner = NULL, lease_until = NULL, next_check_at = $1
             WHERE (state = 'unknown' OR (state = 'submitted' AND next_check_at IS NOT NULL)) AND lease_owner = $2`,
          [now, ownerOf(worker)],
        )
      }),
    pause: (target, reason, actor, now) =>
      write('pause', true, async (tx) => {
        const made = await tx.query(
          `INSERT INTO ${s}.targets (target, paused_at, paused_by, pause_reason) VALUES ($1, $2, $3, $4)
           ON CONFLICT (target) DO UPDATE SET paused_at = excluded.paused_at, paused_by = excluded.paused_by,
             pause_reason = excluded.pause_reason WHERE targets.paused_at IS NULL RETURNING target`,
          [target, now, actor, reason],
        )
        if (made.length > 0) await noteEvent(tx, { kind: 'target_paused', target, now, actor, reason })
      }),
    resume: (target, actor, now) =>
      write('resume', true, async (tx) => {
        const [row] = await tx.query<{ ended: boolean }>(
          `WITH pauses AS (UPDATE ${s}.timed_pauses SET until = $2 WHERE until > $2 AND ((scope = 'target' AND name = $1)
             OR (scope = 'bucket' AND name = (SELECT bucket FROM ${s}.bucket_members WHERE target = $1))) RETURNING 1),
           breakers AS (DELETE FROM ${s}.breakers WHERE target = $1 RETURNING 1),
           resumed AS (UPDATE ${s}.targets SET paused_at = NULL, paused_by = NULL, pause_reason = NULL
             WHERE target = $1 AND paused_at IS NOT NULL RETURNING 1)
           SELECT EXISTS (SELECT 1 FROM pauses) OR EXISTS (SELECT 1 FROM breakers) OR EXISTS (SELECT 1 FROM resumed) AS ended`,
          [target, now],
        )
        if (row?.ended !== true) return false
        await tx.query(
          `UPDATE ${s}.task_state SET next_check_at = $2 WHERE state = 'unknown'
             AND reason IN ('target_paused', 'told_to_wait', 'breaker_open') AND (target = $1 OR target IN (
               SELECT others.target FROM ${s}.bucket_members m JOIN ${s}.bucket_members others USING (bucket) WHERE m.target = $1))`,
          [target, now],
        )
        await noteEvent(tx, { kind: 'target_resumed', target, now, actor })
        return true
      }),
    declareOwn: (kind, { now, actor }, detail) =>
      write('restore', true, async (tx) => {
        await tx.query(
          `UPDATE ${s}.store SET incarnation = CASE WHEN $1 THEN $2 ELSE incarnation END, high_water_at = GREATEST(high_water_at + 1, $3),
             has_called = 1, system_identifier = now.system_identifier, timeline = now.timeline FROM ${s}.timeline() now WHERE id = 1`,
          [kind === 'store_restored', randomUUID(), now],
        )
        await noteEvent(tx, { kind, now, actor, detail })
      }),
    doubtForgotten: async (afterId, order) => {
      const ids = `SELECT request_id FROM ${s}.requests WHERE request_id > $1 ORDER BY request_id LIMIT ${DOUBTED_A_SLICE}`
      const text = (isLocked: boolean) => rowsAboutSql(s, `ARRAY(${ids})`, { isLocked, neighbours: false })
      if (!order.dryRun)
        return change({ commit: 'restore', text: text(true), values: [afterId], makesWork: false }, (sql) =>
          doubtSlice(sql, afterId, order),
        )
      checkOpen()
      return db.read(async (tx) => {
        const rows = await loadRows(tx, text(false), [afterId])
        return slice.run(rows, (sql) => doubtSlice(sql, afterId, order)).made
      })
    },
    purgeAfter: async (afterId, scope, word) => {
      checkOpen()
      const found = await db.read((tx) => readPurgeSlice(s, tx, afterId, scope))
      const ids = found.rows.filter((row) => row.is_purgeable === 1).map(({ request_id: id }) => id)
      if (word.dryRun || ids.length === 0) return previewSlice(found, afterId)
      const purge = async (tx: Transaction) => {
        const rows = await loadRows(tx, rowsAboutSql(s, '$1::bigint[]', { isLocked: true, neighbours: true }), [ids])
        checkVersion(rows)
        const { made, changes } = slice.run(rows, (sql) => purgeSlice(sql, found, afterId, scope, word))
        await options.save(tx, changes)
        const gone = changes['task_state']?.deleted.map((row) => row['request_id']) ?? []
        await tx.query(`DELETE FROM ${s}.events WHERE request_id = ANY($1::bigint[])`, [gone])
        return made
      }
      return db
        .transact(purge, probed('purge'))
        .finally(() => watch.committed(found.rows.some(({ state }) => state === 'dead')))
    },
    dropKeptPayloads: async (target, before, { dryRun }) => {
      checkOpen()
      if (dryRun) {
        const [row] = await db.read((tx) =>
          tx.query<{ rows: number }>(
            `SELECT COUNT(*) AS rows FROM ${s}.kept_payloads WHERE target = $1 AND settled_at <= $2`,
            [target, before],
          ),
        )
        return { dropped: row?.rows ?? 0, done: true }
      }
      const gone = await write('purge', false, (tx) =>
        tx.query(
          `DELETE FROM ${s}.kept_payloads WHERE request_id IN (SELECT request_id FROM ${s}.kept_payloads
             WHERE target = $1 AND settled_at <= $2 ORDER BY settled_at LIMIT ${REMOVALS_A_STEP} FOR UPDATE SKIP LOCKED) RETURNING request_id`,
          [target, before],
        ),
      )
      return { dropped: gone.length, done: gone.length < REMOVALS_A_STEP }
    },
    // The server keeps its own log.
    boundLog: async () => ({ bytes: 0, isHeld: false }),
    backup: null,
    filesOf: () => [],
  }
}

const PURGEABLE = `(state IN ('submitted', 'succeeded', 'failed', 'expired', 'lost', 'dead', 'canceled') AND state = ANY($2::text[])
  AND ($3::text[] IS NULL OR target = ANY($3)) AND updated_at <= $4 AND (state <> 'submitted' OR next_check_at IS NULL)
  AND (doubtful_attempts = '' OR abandoned = 1) AND (abandoned = 0 OR $5)`

async function readPurgeSlice(s: string, tx: Transaction, afterId: number, scope: PurgeScope): Promise<PurgeSlice> {
  const found = await tx.query<SliceRow>(
    `SELECT request_id, state, (${PURGEABLE} AND NOT EXISTS (SELECT 1 FROM ${s}.orphans o WHERE o.request_id = t.request_id)))::int AS is_purgeable,
       CASE
         WHEN $3::text[] IS NOT NULL AND target <> ALL($3) THEN NULL
         WHEN state IN ('invoking', 'unknown', 'held') THEN 'inDoubt'
         WHEN state <> ALL($2::text[]) THEN NULL
         WHEN updated_at > $4 THEN 'tooRecent'
         WHEN state = 'submitted' AND next_check_at IS NOT NULL THEN 'tracked'
         WHEN abandoned = 1 AND NOT $5 THEN 'abandoned'
         WHEN doubtful_attempts <> '' AND abandoned = 0 THEN 'inDoubt'
         ELSE 'orphan'
       END AS kept_for
     FROM ${s}.task_state t WHERE request_id > $1 ORDER BY request_id LIMIT ${SLICE_ROWS}`,
    [afterId, scope.states, scope.targets, scope.before, scope.abandoned],
  )
  const [highest] = await tx.query<{ id: number | null }>(`SELECT MAX(request_id) AS id FROM ${s}.task_state`)
  return sliceOf(found, highest?.id ?? 0)
}
