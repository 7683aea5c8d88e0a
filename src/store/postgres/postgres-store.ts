// The Store on PostgreSQL. A transaction loads and locks the rows that it is about, in one round trip; the rules that run on a SQLite
// file run on them in memory; what they changed is written back in another. Leases, due times and limits go by the server's clock.
import { join } from 'node:path'
import { systemClock } from '../../core/clock.ts'
import { OnceishError } from '../../core/errors.ts'
import type { StoreOrigin } from '../origin.ts'
import { enqueueAll, isRefusalRollback } from '../sqlite/enqueue.ts'
import { cancel, reprioritize, resolve, retry, sayToEach } from '../sqlite/operator.ts'
import { adoptOrphan, dismissOrphan } from '../sqlite/orphans.ts'
import { requestDetail } from '../sqlite/queries.ts'
import { setRankings } from '../sqlite/rankings.ts'
import type { Statements } from '../sqlite/statements.ts'
import {
  type Commit,
  type EnqueueResult,
  isCallerClient,
  type NewRequest,
  type Store,
  type StoreProbe,
} from '../store.ts'
import type { OrphanResult } from '../views.ts'
import { openDatabase, type Transaction } from './connection.ts'
import { createPlaceCheck, enqueueIn, unfit } from './enqueue-in.ts'
import { lockId } from './locks.ts'
import { migrate, refuseNewer } from './migrate.ts'
import { originOf } from './own.ts'
import { createSaves } from './save.ts'
import { createServerClock } from './server-clock.ts'
import { createSlice } from './slice.ts'
import { loadRows, only, type Rows, rowsAboutSql, type StoreRow } from './slice-rows.ts'
import { createTurns } from './turn.ts'
import { type Change, createUpkeep, type Probed } from './upkeep.ts'
import { readUrl } from './url.ts'
import { createViews } from './views.ts'
import { createWatch, notify } from './watch.ts'

export interface PostgresStoreOptions {
  /** postgres://user:password@host:port/database?schema=name */
  readonly url: string
  /** False: a missing schema is STORE_NOT_FOUND. */
  readonly create: boolean
  readonly now: number
  readonly probe?: StoreProbe | undefined
  /** The caller's time counts, as under a virtual clock; absent: the server's. */
  readonly isTimeGiven?: boolean | undefined
  /** Where workers keep what the store does not take; absent: nowhere. */
  readonly stateFolder?: string | undefined
  /** Whose sessions the server shows; absent: nobody's in particular. */
  readonly name?: string | undefined
}

/** @throws OnceishError STORE_* */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const { url, schema } = readUrl(options.url, options.name)
  const { probe, isTimeGiven = false } = options
  const s = `"${schema}"`
  const db = openDatabase(url)
  const probed = (commit: Commit): Probed => ({
    beforeCommit: () => probe?.('before-commit', commit),
    committed: () => probe?.('after-commit', commit),
  })
  try {
    await migrate(db, {
      schema: s,
      create: options.create,
      now: options.now,
      ...probed('migrate'),
    })
  } catch (error) {
    await db.close()
    throw error
  }
  const slice = createSlice()
  const clock = isTimeGiven ? null : createServerClock()
  const watch = createWatch(db, s)
  const saves = createSaves(s)
  const { save } = saves
  const idLock = lockId(s, 'request_ids')
  const checkPlace = createPlaceCheck(db, s)
  let isClosing = false

  const checkOpen = () => {
    if (isClosing) throw new OnceishError('STORE_CLOSED', `the store ${db.location} is closed`)
  }

  /** Loads, runs the rules, saves. */
  async function change<T>(
    { commit, text, values, makesWork = true }: Change,
    work: (sql: Statements) => T,
  ): Promise<T> {
    checkOpen()
    const made = await db.transact(async (tx) => {
      const askedAt = systemClock.monotonicNow()
      const rows = await loadRows(tx, text, values)
      // Also where there is no clock to hear: what stands behind "?." is then not asked at all.
      const { now } = checkVersion(rows)
      clock?.hear(now, askedAt)
      const result = slice.run(rows, work)
      await save(tx, result.changes)
      if (makesWork) await notify(tx, s, commit)
      return result.made
    }, probed(commit))
    watch.committed(makesWork)
    return made
  }

  function checkVersion(rows: Rows): StoreRow {
    const store = only<StoreRow>(rows, 'store')
    if (store === undefined) throw new OnceishError('STORE_NOT_FOUND', `the tables of ${db.location} are gone`)
    refuseNewer(store.schema_version, db.location)
    return store
  }

  /** Requests with everything that a word about them may touch. */
  const about = (ids: readonly number[]) => ({
    text: rowsAboutSql(s, '$1::bigint[]', { isLocked: true, neighbours: true }),
    values: [ids],
  })

  async function readStore(): Promise<{ store: StoreRow; origin: StoreOrigin }> {
    checkOpen()
    const askedAt = systemClock.monotonicNow()
    const rows = await db.read((tx) =>
      loadRows(
        tx,
        `SELECT 'store' AS t, to_json(x) AS r FROM (SELECT *, ${s}.now_ms() AS now FROM ${s}.store) x UNION ALL SELECT 'timeline', to_json(y) FROM ${s}.timeline() y`,
        [],
      ),
    )
    const store = checkVersion(rows)
    clock?.hear(store.now, askedAt)
    const now = only<Pick<StoreRow, 'system_identifier' | 'timeline'>>(rows, 'timeline')
    return { store, origin: originOf(store, now?.system_identifier ?? '', now?.timeline) }
  }

  async function onOrphan(
    orphanId: number,
    makesWork: boolean,
    word: (sql: Statements) => OrphanResult,
  ): Promise<OrphanResult> {
    checkOpen()
    const [known] = await db.read((tx) =>
      tx.query<{ request_id: number | null; last: number | null }>(
        `SELECT (SELECT request_id FROM ${s}.orphans WHERE orphan_id = $1), pg_sequence_last_value(pg_get_serial_sequence($2, 'orphan_id')::regclass) AS last`,
        [orphanId, `${s}.orphans`],
      ),
    )
    if (known?.request_id == null) return { kind: orphanId <= (known?.last ?? 0) ? 'unchanged' : 'not_found' }
    const { text, values } = about([known.request_id])
    return change({ commit: 'orphan', text, values, makesWork }, (sql) => word(sql))
  }

  try {
    // Before anybody goes by it.
    await readStore()
  } catch (error) {
    await db.close()
    slice.close()
    throw error
  }

  return {
    clock,
    facts: async () => {
      const { store } = await readStore()
      return {
        engine: 'postgres',
        location: db.location,
        folderPath: options.stateFolder === undefined ? null : join(options.stateFolder, store.namespace),
        schemaVersion: store.schema_version,
        namespace: store.namespace,
        incarnation: store.incarnation,
        highWaterAt: store.high_water_at,
        clockAheadMs: store.clock_ahead_ms,
      }
    },
    origin: async () => (await readStore()).origin,
    enqueue: async (requests, now, { stopAtRefusal = false } = {}) => {
      if (requests.length === 0) return []
      try {
        return await change(
          {
            commit: 'enqueue',
            text: `SELECT * FROM ${s}.enqueue_rows($1::json)`,
            values: [enqueueArguments(requests, idLock)],
          },
          (sql) => enqueueAll(sql, requests, now, stopAtRefusal),
        )
      } catch (error) {
        if (isRefusalRollback(error)) return error.results
        throw error
      }
    },
    enqueueIn: (client, request, now) => {
      if (!isCallerClient(client)) throw unfit('the connection is no node-postgres client, which the store asks for')
      checkOpen()
      const enqueue = async (tx: Transaction) => {
        const rows = await loadRows(tx, `SELECT t, r::text AS r FROM ${s}.enqueue_rows($1::json)`, [
          enqueueArguments([request], idLock),
        ])
        checkVersion(rows)
        const { made, changes } = slice.run(rows, (sql) => enqueueAll(sql, [request], now, false))
        await save(tx, changes)
        // It is told with the caller's commit.
        await notify(tx, s, 'enqueue')
        return made[0] as EnqueueResult
      }
      return enqueueIn(client, { db, schema: s, enqueue }, checkPlace)
    },
    ...createTurns({ db, schema: s, slice, watch, clock, probe, saves, checkOpen, checkVersion }),
    watchChanges: watch.changes,
    watchCommits: watch.commits,
    onCommit: watch.onCommit,
    onWork: watch.onWork,
    rank: (words, now, actor) =>
      change({ commit: 'rank', text: `SELECT * FROM ${s}.rows_of_targets(false)`, values: [] }, (sql) =>
        setRankings(sql, words, { now, actor }),
      ),
    get: async (requestId) => {
      checkOpen()
      return db.read(async (tx) => {
        const rows = await loadRows(
          tx,
          `SELECT * FROM ${s}.rows_of_targets(false) UNION ALL SELECT * FROM ${s}.detail_rows($1)`,
          [requestId],
        )
        checkVersion(rows)
        return slice.run(rows, (sql) => requestDetail(sql, requestId)).made
      })
    },
    retry: (requestId, word, how) =>
      change({ commit: 'retry', ...about([requestId]) }, (sql) => retry(sql, requestId, word, how)),
    reprioritize: (requestId, priority, word) =>
      change({ commit: 'reprioritize', ...about([requestId]) }, (sql) => reprioritize(sql, requestId, priority, word)),
    resolve: (requestId, resolution, word, how) =>
      change({ commit: 'resolve', ...about([requestId]) }, (sql) => resolve(sql, requestId, resolution, word, how)),
    sayToEach: (seen, saying, word, how) =>
      change({ commit: saying.word, ...about(seen.map(({ requestId }) => requestId)), makesWork: !how.dryRun }, (sql) =>
        sayToEach(sql, seen, saying, word, how),
      ),
    cancel: (requestId, word) =>
      change({ commit: 'cancel', ...about([requestId]) }, (sql) => cancel(sql, requestId, word)),
    adoptOrphan: (orphanId, word, policyOf) =>
      onOrphan(orphanId, true, (sql) => adoptOrphan(sql, orphanId, word, policyOf)),
    dismissOrphan: (orphanId, word) => onOrphan(orphanId, false, (sql) => dismissOrphan(sql, orphanId, word)),
    ...createViews({ db, schema: s, slice, checkOpen }),
    ...createUpkeep({ db, schema: s, slice, save, checkOpen, checkVersion, change, watch, probed }),
    close: async () => {
      isClosing = true
      await watch.close()
      await db.close()
      slice.close()
    },
  }
}

function enqueueArguments(requests: readonly NewRequest[], idLock: string): string {
  return JSON.stringify({
    hashes: requests.map(({ ledgerHash }) => `\\x${Buffer.from(ledgerHash).toString('hex')}`),
    keys: requests.flatMap(({ target, orderingKey }) =>
      orderingKey === null ? [] : [{ target, ordering_key: orderingKey }],
    ),
    lock: idLock,
  })
}
