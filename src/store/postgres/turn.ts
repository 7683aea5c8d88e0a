// A worker's turn on PostgreSQL: what it is about is loaded and locked, the rules run on it, and what they changed is written back, with
// the server's clock inside the transaction. Plain successes are settled by the server on the way.
import { systemClock } from '../../core/clock.ts'
import { hasCode } from '../../core/errors.ts'
import { AGED_FROM } from '../../core/ranking.ts'
import { commitsOf } from '../commits-of.ts'
import { refuseForeign } from '../origin.ts'
import { ownerOf } from '../sqlite/turn-context.ts'
import type { Commit, Store, StoreProbe } from '../store.ts'
import type { TurnInput, TurnResult, WorkerLife } from '../turn.ts'
import type { Ask, Database, OwnTransaction, Transaction } from './connection.ts'
import { originOf } from './own.ts'
import type { Saves } from './save.ts'
import type { ServerClock } from './server-clock.ts'
import type { Changes, Slice } from './slice.ts'
import { loadRows, only, type Rows, type StoreRow } from './slice-rows.ts'
import { type Asked, turnArguments } from './turn-arguments.ts'
import { type LoadedTurn, runRules, type ServerFacts } from './turn-rules.ts'
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
    const leases = isTimeGiven || clock.monotonicNow() - leasesSeenAt >= LEASES_EVERY_MS
    turnsInDoubt.delete(ownerOf(input.worker))
    let hasCommitted = false
    const transact = (isGuarded: boolean) => {
      let commits: readonly Commit[] = []
      const run = async (tx: OwnTransaction) => {
        const loaded = await load(tx, input, { isTimeGiven, leases, isGuarded })
        const { made, changes } = runRules(input, loaded, { slice, isTimeGiven, isGuarded })
        const more = await write(tx, loaded, made, changes)
        commits = commitsOf(input, made)
        return { ...made, more: made.more || more }
      }
      return db.transact(run, {
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
      })
    }
    const made = await transact(false).catch((error: unknown) => {
      if (hasCommitted || input.results.length === 0) throw error
      if (hasCode(error, ...SERVER_TROUBLE, 'INVARIANT_BROKEN')) throw error
      return transact(true)
    })
    if (leases && !isTimeGiven) leasesSeenAt = clock.monotonicNow()
    tidyQueue(made.calls.length)
    watch.committed(false)
    return made
  }

  async function load(tx: Transaction, input: TurnInput, asked: Asked): Promise<LoadedTurn> {
    // The lease counts from before the server's clock is read.
    const askedAt = systemClock.monotonicNow()
    const text = `SELECT * FROM ${s}.turn_rows($1::json, $2::json)`
    const rows = await loadRows(tx, text, turnArguments(s, input, asked))
    const store = checkVersion(rows)
    const facts = only<ServerFacts>(rows, 'facts') as ServerFacts
    clock?.hear(facts.now, askedAt)
    return { rows, store, facts: asked.leases ? facts : { ...facts, lease: facts.now + LEASES_EVERY_MS } }
  }

  /** @returns whether there are more ranks to move. */
  async function write(
    tx: OwnTransaction,
    { rows, store, facts }: LoadedTurn,
    { calls }: TurnResult,
    changes: Changes,
  ): Promise<boolean> {
    tx.ticket = facts.ticket
    // Another branch of the server's history than the one whose calls it has: nothing of this is committed.
    if (calls.length > 0) refuseForeign(originOf(store, tx.systemIdentifier, facts.ticket.branch), db.location)
    await raiseHighWater(tx, store, facts.now, calls.length > 0)
    const isMoving = rows.get('rankings')?.some(({ moved }) => moved !== null) === true
    if (!isMoving) {
      await saveLast(tx, changes)
      return false
    }
    await save(tx, changes)
    return moveRanks(tx)
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
