// A worker's turn on PostgreSQL: what it is about is loaded and locked, the rules run on it, and what they changed is written back, with
// the server's clock inside the transaction. Plain successes are settled by the server on the way.
import { hasCode } from '../../core/errors.ts'
import { NO_POLICY } from '../../core/policy.ts'
import { AGED_FROM } from '../../core/ranking.ts'
import { type AttemptResult, tracked } from '../../core/settlement.ts'
import { PASSED_OVER_A_TURN } from '../bounds.ts'
import { commitsOf } from '../commits-of.ts'
import { refuseForeign } from '../origin.ts'
import { earliest } from '../sqlite/due.ts'
import { brief, type Guard, plainlySubmitted } from '../sqlite/settle.ts'
import type { Statements } from '../sqlite/statements.ts'
import { runTurn, type TurnFacts } from '../sqlite/turn.ts'
import { ownerOf } from '../sqlite/turn-context.ts'
import type { Commit, Store, StoreProbe } from '../store.ts'
import type { SettledRow, TurnInput, TurnResult, WorkerLife } from '../turn.ts'
import type { Ask, Database, Ticket, Transaction } from './connection.ts'
import { lockId } from './locks.ts'
import { originOf } from './own.ts'
import { runPlainly } from './plain-slice.ts'
import type { Saves } from './save.ts'
import type { ServerClock } from './server-clock.ts'
import type { Row, Slice } from './slice.ts'
import { loadRows, only, type Rows, type StoreRow } from './slice-rows.ts'
import type { Watch } from './watch.ts'

/** How often the high-water time is raised at most. */
const HIGH_WATER_EVERY_MS = 1000
/** How often a worker looks for leases that are over: the index of those that run is full of calls that have ended since. */
const LEASES_EVERY_MS = 1000
/** After so many claims, the heads of the lanes lie behind as many dead rows, through which every turn must go. */
const TIDY_AFTER_CLAIMS = 10_000
/** A turn takes milliseconds; who waits longer for the server has lost it, or it is of no use. */
const TURN_PATIENCE_MS = 15_000
/** Then the worker bears it, keeps its answers, and asks again. */
const ASK_OF_A_TURN_MS = 1000

export interface TurnsOptions {
  readonly db: Database
  /** Quoted. */
  readonly schema: string
  readonly slice: Slice
  readonly watch: Watch
  /** Null: the caller's time counts. */
  readonly clock: ServerClock | null
  readonly probe: StoreProbe | undefined
  readonly saves: Saves
  checkOpen(): void
  checkVersion(rows: Rows): StoreRow
}

export function createTurns(options: TurnsOptions): Pick<Store, 'turn' | 'turnInDoubt'> {
  const { db, schema: s, slice, watch, clock, probe, checkOpen, checkVersion } = options
  const { save, saveLast } = options.saves
  const isTimeGiven = clock === null
  /** Of turns whose commit was not answered, by worker. */
  const turnsInDoubt = new Map<string, Ask<TurnResult>>()

  let leasesSeenAt = Number.NEGATIVE_INFINITY
  let claimsSinceTidied = 0

  /** A server whose autovacuum comes once a minute has let a busy queue slow down by then. One run at a time, of whichever process. */
  function tidyQueue(claims: number): void {
    claimsSinceTidied += claims
    if (claimsSinceTidied < TIDY_AFTER_CLAIMS) return
    claimsSinceTidied = 0
    db.vacuum(`${s}.ready`)
  }

  async function turn(input: TurnInput): Promise<TurnResult> {
    checkOpen()
    const leases = clock === null || clock.monotonicNow() - leasesSeenAt >= LEASES_EVERY_MS
    turnsInDoubt.delete(ownerOf(input.worker))
    let hasCommitted = false
    const transact = (isGuarded: boolean) => {
      let commits: readonly Commit[] = []
      return db.transact(
        async (tx) => {
          // The lease counts from before the server's clock is read.
          const asked = clock === null ? null : { at: clock.monotonicNow(), wall: input.now() }
          const rows = await loadRows(tx, `SELECT * FROM ${s}.turn_rows($1::json, $2::json)`, [
            argumentsOf(s, input, { isTimeGiven, leases }),
            JSON.stringify(isGuarded ? [] : input.results.flatMap((result) => plainOf(input, result))),
          ])
          const store = checkVersion(rows)
          const facts = only<TurnFactsRow>(rows, 'facts') as TurnFactsRow
          if (asked !== null) clock?.hear(facts.now, asked.at)
          const isPlain = (result: AttemptResult) => settled.has(result.requestId)
          const settled = new Set((rows.get('plain') ?? []).map(({ request_id: id }) => id))
          const rest = input.results.filter((result) => !isPlain(result))
          const timed = { ...input, results: rest, ...(isTimeGiven ? {} : serverTime(facts.now)) }
          const first = Math.min(...(rows.get('expiries') ?? []).map(({ expires_at: at }) => at as number))
          const turnFacts: TurnFacts = {
            highWaterAt: isTimeGiven ? store.high_water_at : Math.min(store.high_water_at, facts.now),
            clockAheadMs: store.clock_ahead_ms,
            nextExpiryAt: Number.isFinite(first) ? first : null,
            isRanked: rows.has('rankings'),
          }
          const run = (sql: Statements, guard: Guard | null) => runTurn(sql, timed, guard, turnFacts)
          const { made, changes } =
            (isGuarded ? null : runPlainly(rows, (sql) => run(sql, null))) ??
            slice.run(inSlice(rows), (sql, memory) => run(sql, isGuarded ? (work) => memory.transaction(work)() : null))
          tx.ticket = facts.ticket
          // Another branch of the server's history than the one whose calls it has: nothing of this is committed.
          if (made.calls.length > 0)
            refuseForeign(originOf(store, tx.systemIdentifier, facts.ticket.branch), db.location)
          await raiseHighWater(tx, store, facts.now, made.calls.length > 0)
          const isMoving = rows.get('rankings')?.some(({ moved }) => moved !== null) === true
          await (isMoving ? save : saveLast)(tx, changes)
          const more = isMoving && (await moveRanks(tx))
          commits = commitsOf(input, made)
          // In the order of the answers, as ever.
          const others = [...made.settled]
          const inOrder = input.results.map((result) =>
            isPlain(result) ? plainlySubmitted(result) : (others.shift() as SettledRow),
          )
          return adjusted(input, rows, leases ? facts : { ...facts, lease: facts.now + LEASES_EVERY_MS }, {
            ...made,
            settled: [...inOrder, ...others],
            more: made.more || more,
          })
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
    const made = await transact(false).catch((error: unknown) => {
      if (hasCommitted || input.results.length === 0) throw error
      if (hasCode(error, ...SERVER_TROUBLE, 'INVARIANT_BROKEN')) throw error
      return transact(true)
    })
    if (leases && clock !== null) leasesSeenAt = clock.monotonicNow()
    tidyQueue(made.calls.length)
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

  return { turn, turnInDoubt }
}

interface TurnFactsRow {
  readonly now: number
  readonly ticket: Ticket
  readonly waiting: number | null
  readonly expiry: number | null
  readonly lease: number | null
  readonly unknown: number | null
  readonly tracked: number | null
}

function argumentsOf(
  s: string,
  input: TurnInput,
  { isTimeGiven, leases }: { readonly isTimeGiven: boolean; readonly leases: boolean },
): string {
  const { claim, check } = input
  const limited = claim.targets.filter(({ policy: { limits } }) => {
    return limits.concurrency !== null || limits.rate !== null || limits.bucket !== undefined
  })
  const scopes = limited.flatMap(({ name, policy }) => [
    `target ${name}`,
    ...(policy.limits.bucket === undefined ? [] : [`bucket ${policy.limits.bucket}`]),
  ])
  const said = [...input.results, ...input.reconciliations, ...input.trackings]
  const ids = [...said, ...input.renewals].map(({ requestId }) => requestId)
  return JSON.stringify({
    now: isTimeGiven ? input.now() : null,
    // In one order for everybody.
    locks:
      claim.slots > 0 || input.reconciliations.length > 0
        ? [...new Set(scopes)].map((scope) => lockId(s, 'limits', scope)).toSorted()
        : [],
    ids: [...new Set(ids)],
    answered: [...new Set(said.map(({ target }) => target))],
    slots: Math.max(0, claim.slots),
    lanes: claim.targets.map(({ name }) => name),
    from: claim.lookFrom ?? '',
    limited: limited.map(({ name }) => name),
    checks: check.slots > 0 ? check.slots + PASSED_OVER_A_TURN : 0,
    checked: claim.targets.map(({ name }) => name),
    leases,
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
    ({ target, found, is_full }) => is_full && (taken.get(target as string) ?? 0) >= (found as number),
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
