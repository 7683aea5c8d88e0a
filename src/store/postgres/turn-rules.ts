// What the rules make of the rows that a turn was given: in the server's time, beside what the server has settled by itself, and with what
// it alone knows of the rows that were not loaded.
import type { AttemptResult } from '../../core/settlement.ts'
import { earliest } from '../sqlite/due.ts'
import { type Guard, plainlySubmitted } from '../sqlite/settle.ts'
import type { Statements } from '../sqlite/statements.ts'
import { runTurn, type TurnFacts } from '../sqlite/turn.ts'
import type { SettledRow, TurnInput, TurnResult } from '../turn.ts'
import type { Ticket } from './connection.ts'
import { runPlainly } from './plain-slice.ts'
import type { Changes, Row, Slice } from './slice.ts'
import { only, type Rows, type StoreRow } from './slice-rows.ts'

/** The last row of `turn_rows`: the server's clock, and when something is due that was not loaded. */
export interface ServerFacts {
  readonly now: number
  readonly ticket: Ticket
  readonly waiting: number | null
  readonly expiry: number | null
  readonly lease: number | null
  readonly unknown: number | null
  readonly tracked: number | null
}

export interface LoadedTurn {
  readonly rows: Rows
  readonly store: StoreRow
  readonly facts: ServerFacts
}

export interface RunOptions {
  readonly slice: Slice
  /** The caller's time counts; else the server's. */
  readonly isTimeGiven: boolean
  /** Gives each settlement a savepoint. */
  readonly isGuarded: boolean
}

export function runRules(
  input: TurnInput,
  loaded: LoadedTurn,
  { slice, isTimeGiven, isGuarded }: RunOptions,
): { readonly made: TurnResult; readonly changes: Changes } {
  const { rows, store, facts } = loaded
  const settledByServer = new Set((rows.get('plain') ?? []).map(({ request_id: id }) => id))
  const isPlain = ({ requestId }: AttemptResult) => settledByServer.has(requestId)
  const rest = input.results.filter((result) => !isPlain(result))
  const timed = { ...input, results: rest, ...(isTimeGiven ? {} : serverTime(facts.now)) }
  const turnFacts: TurnFacts = {
    highWaterAt: isTimeGiven ? store.high_water_at : Math.min(store.high_water_at, facts.now),
    clockAheadMs: store.clock_ahead_ms,
    nextExpiryAt: earliest(...(rows.get('expiries') ?? []).map(({ expires_at: at }) => at)),
    isRanked: rows.has('rankings'),
  }
  const run = (sql: Statements, guard: Guard | null) => runTurn(sql, timed, guard, turnFacts)
  const { made, changes } =
    (isGuarded ? null : runPlainly(rows, (sql) => run(sql, null))) ??
    slice.run(inSlice(rows), (sql, memory) => run(sql, isGuarded ? (work) => memory.transaction(work)() : null))
  // In the order of the answers, as ever.
  const others = [...made.settled]
  const inOrder = input.results.map((result) =>
    isPlain(result) ? plainlySubmitted(result) : (others.shift() as SettledRow),
  )
  // What is left of them are no answers: requests that ended uncalled.
  const taken = [...made.calls, ...others]
  return { made: adjusted(input, loaded, { ...made, settled: [...inOrder, ...others] }, taken), changes }
}

/** The server's clock is everybody's. */
function serverTime(now: number): Pick<TurnInput, 'now' | 'steady'> {
  return { now: () => now, steady: { now: () => now, hear: () => {}, isNews: () => false } }
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
function adjusted(
  input: TurnInput,
  { rows, facts }: LoadedTurn,
  made: TurnResult,
  taken: readonly { readonly target: string }[],
): TurnResult {
  const takenOf = (lane: unknown) => taken.filter(({ target }) => target === lane).length
  const moreReady = (rows.get('lane') ?? []).some(
    ({ target, found, is_full }) => is_full && takenOf(target) >= (found as number),
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
