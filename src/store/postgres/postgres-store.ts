// The Store on PostgreSQL. A transaction loads and locks the rows that it is about, in one round trip; the rules that run on a SQLite
// file run on them in memory; what they changed is written back in another. Leases, due times and limits go by the server's clock.
import { join } from 'node:path'
import { systemClock } from '../../core/clock.ts'
import { hasCode, OnceishError } from '../../core/errors.ts'
import { NO_POLICY } from '../../core/policy.ts'
import { AGED_FROM } from '../../core/ranking.ts'
import { type AttemptResult, tracked } from '../../core/settlement.ts'
import { refuseForeign, type StoreOrigin } from '../origin.ts'
import { earliest } from '../sqlite/due.ts'
import { enqueueAll, isRefusalRollback } from '../sqlite/enqueue.ts'
import { cancel, reprioritize, resolve, retry, sayToEach } from '../sqlite/operator.ts'
import { adoptOrphan, dismissOrphan } from '../sqlite/orphans.ts'
import { requestDetail } from '../sqlite/queries.ts'
import { setRankings } from '../sqlite/rankings.ts'
import { brief, type Guard, plainlySubmitted } from '../sqlite/settle.ts'
import type { Statements } from '../sqlite/statements.ts'
import { runTurn } from '../sqlite/turn.ts'
import { ownerOf } from '../sqlite/turn-context.ts'
import {
  type Commit,
  type EnqueueResult,
  isCallerClient,
  type NewRequest,
  type Store,
  type StoreProbe,
} from '../store.ts'
import type { SettledRow, TurnInput, TurnResult, WorkerLife } from '../turn.ts'
import type { OrphanResult } from '../views.ts'
import { type Ask, openDatabase, TICKET_SQL, type Ticket, type Transaction } from './connection.ts'
import { createPlaceCheck, enqueueIn, unfit } from './enqueue-in.ts'
import { lockId } from './locks.ts'
import { migrate, refuseNewer } from './migrate.ts'
import { createServerClock } from './server-clock.ts'
import { type Changes, createSlice, type Row } from './slice.ts'
import { loadRows, only, type Rows, type StoreRow } from './slice-rows.ts'
import { TABLES } from './tables.ts'
import { createUpkeep } from './upkeep.ts'
import { readUrl } from './url.ts'
import { createViews } from './views.ts'
import { channelOf, createWatch } from './watch.ts'

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
}

/** How often the high-water time is raised at most. */
const HIGH_WATER_EVERY_MS = 1000
/** Rows beyond the slots that a turn may pass over, as the rules have it. */
const PASSED_OVER_A_TURN = 200
/** A turn takes milliseconds; who waits longer for the server has lost it, or it is of no use. */
const TURN_PATIENCE_MS = 15_000
/** Then the worker bears it, keeps its answers, and asks again. */
const ASK_OF_A_TURN_MS = 1000

/** @throws OnceishError STORE_* */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const { url, schema } = readUrl(options.url)
  const { probe, isTimeGiven = false } = options
  const s = `"${schema}"`
  const db = openDatabase(url)
  try {
    await migrate(db, {
      schema: s,
      create: options.create,
      now: options.now,
      beforeCommit: () => probe?.('before-commit', 'migrate'),
      committed: () => probe?.('after-commit', 'migrate'),
    })
  } catch (error) {
    await db.close()
    throw error
  }
  const slice = createSlice()
  const clock = isTimeGiven ? null : createServerClock()
  const watch = createWatch(db, s)
  const eventLock = lockId(s, 'events')
  const idLock = lockId(s, 'request_ids')
  const checkPlace = createPlaceCheck(db, s)
  let isClosing = false
  /** Of turns whose commit was not answered, by worker. */
  const turnsInDoubt = new Map<string, Ask<TurnResult>>()

  const checkOpen = () => {
    if (isClosing) throw new OnceishError('STORE_CLOSED', `the store ${db.location} is closed`)
  }

  /** By which the commit is asked about comes with it. */
  async function save(tx: Transaction, changes: Changes): Promise<void> {
    const kinds = kindsOf(changes)
    if (kinds.length === 0) return
    const [ticket] = await tx.query<Ticket>(
      `SELECT ${s}.save($1::text[], $2::json[], $3::integer[], $4::bigint), ${TICKET_SQL}`,
      [
        kinds.map(([kind]) => kind),
        kinds.map(([, rows]) => JSON.stringify(rows)),
        kinds.map(([, rows]) => rows.length),
        eventLock,
      ],
    )
    tx.ticket = ticket ?? null
  }

  interface Change {
    readonly commit: Commit
    /** A statement whose rows are the slice. */
    readonly text: string
    readonly values: readonly unknown[]
    readonly makesWork?: boolean
  }

  /** Loads, runs the rules, saves. */
  async function change<T>(
    { commit, text, values, makesWork = true }: Change,
    work: (sql: Statements, rows: Rows) => T,
  ): Promise<T> {
    checkOpen()
    const made = await db.transact(
      async (tx) => {
        const askedAt = systemClock.monotonicNow()
        const rows = await loadRows(tx, text, values)
        // Also where there is no clock to hear: what stands behind "?." is then not asked at all.
        const { now } = checkVersion(rows)
        clock?.hear(now, askedAt)
        const result = slice.run(rows, (sql) => work(sql, rows))
        await save(tx, result.changes)
        if (makesWork) await tx.query('SELECT pg_notify($1, $2)', [channelOf(s), commit])
        return result.made
      },
      { beforeCommit: () => probe?.('before-commit', commit), committed: () => probe?.('after-commit', commit) },
    )
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
    text: `SELECT * FROM ${s}.rows_of_targets(true) UNION ALL SELECT * FROM ${s}.rows_about($1::bigint[], true, true)`,
    values: [ids],
  })

  async function turn(input: TurnInput): Promise<TurnResult> {
    checkOpen()
    turnsInDoubt.delete(ownerOf(input.worker))
    let hasCommitted = false
    const run = (isGuarded: boolean) => {
      let commits: readonly Commit[] = []
      return db.transact(
        async (tx) => {
          // The lease counts from before the server's clock is read.
          const asked = clock === null ? null : { at: clock.monotonicNow(), wall: input.now() }
          const rows = await loadRows(tx, `SELECT * FROM ${s}.turn_rows($1::json, $2::json)`, [
            argumentsOf(s, input, isTimeGiven),
            JSON.stringify(isGuarded ? [] : input.results.flatMap((result) => plainOf(input, result))),
          ])
          const store = checkVersion(rows)
          const facts = only<TurnFactsRow>(rows, 'facts') as TurnFactsRow
          if (asked !== null) clock?.hear(facts.now, asked.at)
          const isPlain = (result: AttemptResult) => settled.has(result.requestId)
          const settled = new Set((rows.get('plain') ?? []).map(({ request_id: id }) => id))
          const rest = input.results.filter((result) => !isPlain(result))
          const { made, changes } = slice.run(inSlice(rows), (sql, memory) => {
            const timed = { ...input, results: rest, ...(isTimeGiven ? {} : serverTime(facts.now)) }
            const guard: Guard | null = isGuarded ? (work) => memory.transaction(work)() : null
            const first = Math.min(...(rows.get('expiries') ?? []).map(({ expires_at: at }) => at as number))
            return runTurn(sql, timed, guard, {
              highWaterAt: isTimeGiven ? store.high_water_at : Math.min(store.high_water_at, facts.now),
              clockAheadMs: store.clock_ahead_ms,
              nextExpiryAt: Number.isFinite(first) ? first : null,
              isRanked: rows.has('rankings'),
            })
          })
          await save(tx, changes)
          // Another branch of the server's history than the one whose calls it has: nothing of this is committed.
          if (made.calls.length > 0) refuseForeign(originOf(store, tx.systemIdentifier, tx.ticket?.branch), db.location)
          const more = rows.get('rankings')?.some(({ moved }) => moved !== null) === true && (await moveRanks(tx))
          await raiseHighWater(tx, store, facts.now, made.calls.length > 0)
          commits = commitsOf(input, made)
          // In the order of the answers, as ever.
          const others = [...made.settled]
          const inOrder = input.results.map((result) =>
            isPlain(result) ? plainlySubmitted(result) : (others.shift() as SettledRow),
          )
          return adjusted(input, rows, facts, { ...made, settled: [...inOrder, ...others], more: made.more || more })
        },
        {
          beforeCommit: () => {
            for (const commit of commits) probe?.('before-commit', commit)
          },
          committed: () => {
            hasCommitted = true
            for (const commit of commits) probe?.('after-commit', commit)
          },
          patienceMs: TURN_PATIENCE_MS,
          askForMs: ASK_OF_A_TURN_MS,
          inDoubt: (ask) => {
            turnsInDoubt.set(ownerOf(input.worker), ask)
          },
          isThere: hasCalls,
        },
      )
    }
    const made = await run(false).catch((error: unknown) => {
      if (hasCommitted || input.results.length === 0) throw error
      if (hasCode(error, ...SERVER_TROUBLE, 'INVARIANT_BROKEN')) throw error
      return run(true)
    })
    watch.committed(false)
    return made
  }

  /** By the nonce of a call that it claimed; without one it is as if it had not happened, since answers are settled twice unharmed. */
  async function hasCalls(tx: Transaction, { calls: [call] }: TurnResult): Promise<boolean> {
    if (call === undefined) return false
    const found = await tx.query(
      `SELECT 1 FROM ${s}.task_state WHERE request_id = $1 AND attempt = $2 AND nonce = $3`,
      [call.requestId, call.attempt, call.nonce],
    )
    return found.length > 0
  }

  async function turnInDoubt(worker: WorkerLife): Promise<TurnResult | null> {
    checkOpen()
    const made = (await turnsInDoubt.get(ownerOf(worker))?.()) ?? null
    turnsInDoubt.delete(ownerOf(worker))
    if (made !== null) watch.committed(false)
    return made
  }

  async function moveRanks(tx: Transaction): Promise<boolean> {
    const [row] = await tx.query<{ more: boolean }>(`SELECT ${s}.move_ranks($1) AS more`, [AGED_FROM])
    return row?.more === true
  }

  /** Rarely, and by whoever comes first: else every turn of every worker would wait for the same row. */
  async function raiseHighWater(tx: Transaction, store: StoreRow, now: number, calls: boolean): Promise<void> {
    const isDue = now >= store.high_water_at + (isTimeGiven ? 0 : HIGH_WATER_EVERY_MS)
    if (!isDue && !(calls && store.has_called === 0)) return
    await tx.query(
      `UPDATE ${s}.store SET high_water_at = GREATEST(high_water_at, $1), has_called = GREATEST(has_called, $2)
       WHERE id = (SELECT id FROM ${s}.store WHERE id = 1 FOR UPDATE SKIP LOCKED)`,
      [now, calls ? 1 : 0],
    )
  }

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
        await tx.query('SELECT pg_notify($1, $2)', [channelOf(s), 'enqueue'])
        return made[0] as EnqueueResult
      }
      return enqueueIn(client, { db, schema: s, enqueue }, checkPlace)
    },
    turn,
    turnInDoubt,
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
    ...createUpkeep({ db, schema: s, slice, save, eventLock, checkOpen, change, watch, probe }),
    releaseChecks: async (worker, now) => {
      checkOpen()
      await db.transact((tx) =>
        tx.query(
          `UPDATE ${s}.task_state SET lease_owner = NULL, lease_until = NULL, next_check_at = $1
             WHERE (state = 'unknown' OR (state = 'submitted' AND next_check_at IS NOT NULL)) AND lease_owner = $2`,
          [now, ownerOf(worker)],
        ),
      )
      watch.committed(true)
    },
    close: async () => {
      isClosing = true
      await watch.close()
      await db.close()
      slice.close()
    },
  }
}

/** As `onceish.save` takes them: what leaves before what comes, table by table, the rotation by what became of the queue, events last. */
function kindsOf(changes: Changes): (readonly [kind: string, rows: readonly Row[]])[] {
  const kinds = TABLES.filter(({ name }) => name !== 'events').flatMap(({ name }) => {
    if (name === 'group_rotation') return rotationKinds(changes)
    const { deleted = [], updated = [], inserted = [] } = changes[name] ?? {}
    return [
      [`${name}.deleted`, deleted] as const,
      [`${name}.updated`, updated] as const,
      [`${name}.inserted`, inserted] as const,
    ]
  })
  return [...kinds, ['events.inserted', changes['events']?.inserted ?? []] as const].filter(
    ([, rows]) => rows.length > 0,
  )
}

function rotationKinds({ group_rotation: rotation, ready }: Changes): (readonly [string, readonly Row[]])[] {
  const lanes = new Map<string, Row>()
  for (const { target, group_key } of ready?.deleted ?? [])
    if (rotation !== undefined || group_key !== '')
      lanes.set(`${target}\0${group_key}`, { target: target ?? null, group_key: group_key ?? null })
  // Those of which nothing is left in the slice gave theirs by their places.
  const inOrder = (rows: readonly Row[]) => rows.toSorted((a, b) => Number(a['place']) - Number(b['place']))
  const given = rotation === undefined ? [] : [...inOrder(rotation.deleted), ...inOrder(rotation.updated)]
  return [
    ['group_rotation.inserted', rotation?.inserted ?? []],
    ['group_rotation.left', [...lanes.values()]],
    ['group_rotation.given', given],
  ]
}

interface TurnFactsRow {
  readonly now: number
  readonly waiting: number | null
  readonly expiry: number | null
  readonly lease: number | null
  readonly unknown: number | null
  readonly tracked: number | null
}

function argumentsOf(s: string, input: TurnInput, isTimeGiven: boolean): string {
  const { claim, check } = input
  const limited = claim.targets.filter(({ policy: { limits } }) => {
    return limits.concurrency !== null || limits.rate !== null || limits.bucket !== undefined
  })
  const scopes = limited.flatMap(({ name, policy }) => [
    `target ${name}`,
    ...(policy.limits.bucket === undefined ? [] : [`bucket ${policy.limits.bucket}`]),
  ])
  const ids = [...input.results, ...input.renewals, ...input.reconciliations, ...input.trackings].map(
    ({ requestId }) => requestId,
  )
  return JSON.stringify({
    now: isTimeGiven ? input.now() : null,
    // In one order for everybody.
    locks:
      claim.slots > 0 || input.reconciliations.length > 0
        ? [...new Set(scopes)].map((scope) => lockId(s, 'limits', scope)).toSorted()
        : [],
    ids: [...new Set(ids)],
    slots: Math.max(0, claim.slots),
    lanes: claim.targets.map(({ name }) => name),
    from: claim.lookFrom ?? '',
    limited: limited.map(({ name }) => name),
    checks: check.slots > 0 ? check.slots + PASSED_OVER_A_TURN : 0,
    checked: claim.targets.map(({ name }) => name),
  })
}

/** Calls that run elsewhere count for the limits; ranks are moved by the server itself. */
function inSlice(rows: Rows): Rows {
  const invoking = new Map<string, number>()
  for (const { state, target } of rows.get('task_state') ?? [])
    if (state === 'invoking') invoking.set(target as string, (invoking.get(target as string) ?? 0) + 1)
  const outside = (rows.get('invoking') ?? []).map(
    ({ target, rows: all }): Row => ({
      target: target as string,
      invoking: (all as number) - (invoking.get(target as string) ?? 0),
    }),
  )
  const rankings = rows.get('rankings')?.map((row) => ({ ...row, moved: null }))
  return new Map([...rows, ['outside', outside], ...(rankings === undefined ? [] : [['rankings', rankings] as const])])
}

/** What the slice could not know of the rows that it does not hold. */
function adjusted(input: TurnInput, rows: Rows, facts: TurnFactsRow, made: TurnResult): TurnResult {
  const taken = new Map<string, number>()
  for (const { target } of [...made.calls, ...made.settled]) taken.set(target, (taken.get(target) ?? 0) + 1)
  const moreReady = (rows.get('lane') ?? []).some(
    ({ target, found, wanted }) => found === wanted && (taken.get(target as string) ?? 0) >= (found as number),
  )
  const looked = only<{ through: string }>(rows, 'looked')
  const asked = made.investigations.length + made.toTrack.length < input.check.slots
  return {
    ...made,
    moreReady: made.moreReady || moreReady,
    lookedThrough: made.lookedThrough ?? looked?.through ?? null,
    nextDueAt: earliest(
      made.nextDueAt,
      facts.waiting,
      facts.expiry,
      facts.lease,
      ...(asked ? [facts.unknown, facts.tracked] : []),
    ),
  }
}

/** The server's clock is everybody's. */
function serverTime(now: number): Pick<TurnInput, 'now' | 'steady'> {
  return { now: () => now, steady: { now: () => now, hear: () => {}, isNews: () => false } }
}

/** A first attempt that was accepted, as `settle_plainly` takes it: where that is all that is to be said of its request. */
function plainOf(input: TurnInput, { requestId, attempt, nonce, outcome, endedAt, target }: AttemptResult): object[] {
  const policy = input.policyOf(target) ?? NO_POLICY
  if (outcome.kind !== 'accepted' || typeof outcome.taskId !== 'string' || attempt !== 1) return []
  // Its payload is kept, or its end is counted.
  if (policy.keepPayloadMs !== null || (policy.breaker?.rate ?? null) !== null) return []
  if (input.results.filter((other) => other.requestId === requestId).length > 1) return []
  const next_check_at = tracked(policy, input.now()).nextCheckAt ?? null
  const evidence = JSON.stringify(brief(outcome.evidence))
  return [
    { request_id: requestId, attempt, nonce, task_id: outcome.taskId, ended_at: endedAt, next_check_at, evidence },
  ]
}

function originOf(store: StoreRow, systemIdentifier: string, timeline: string | undefined): StoreOrigin {
  const isOwn = systemIdentifier === store.system_identifier && timeline === store.timeline
  if (isOwn) return { kind: 'own' }
  return { kind: 'restored', why: 'failed_over', knownUntil: store.high_water_at, calledUntil: null }
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

function commitsOf(input: TurnInput, { calls }: TurnResult): Commit[] {
  return [
    ...(input.results.length > 0 ? ['settle' as const] : []),
    ...(input.reconciliations.length > 0 ? ['sweep' as const] : []),
    ...(calls.length > 0 ? ['claim' as const] : []),
  ]
}

/** Troubles of the server or the way to it, not of one answer. */
const SERVER_TROUBLE = [
  'STORE_BUSY',
  'STORE_UNREACHABLE',
  'STORE_FULL',
  'STORE_UNWRITABLE',
  'STORE_SCHEMA_NEWER',
  'STORE_SCHEMA_OLDER',
  'STORE_COPYING',
  'STORE_RESTORED',
] as const
