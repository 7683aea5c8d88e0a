// The whole store in numbers. What grows with it is counted a slice of ids at a time.
import type { RequestState } from '../../core/task-state.ts'
import { SHOWN_GROUPS, SHOWN_KEYS } from '../bounds.ts'
import { type GroupsStatus, type StoreStatus, type StuckKey, type TargetStatus, UNSEEN_TARGET } from '../views.ts'
import { readBreakers } from './breakers.ts'
import { type OldestWaits, oldestOf, oldestWaits } from './oldest-ready.ts'
import { type PauseRow, type TimedPauseRow, toTimedPause } from './pauses.ts'
import { requestView } from './queries.ts'
import type { Statements } from './statements.ts'

const COUNTED_AT_ONCE = 50_000

interface Counts {
  readonly states: Partial<Record<RequestState, number>>
  readonly targets: Record<string, { -readonly [K in keyof TargetStatus]: TargetStatus[K] }>
  of(target: string): { -readonly [K in keyof TargetStatus]: TargetStatus[K] }
  add(target: string, state: RequestState, rows: number): void
}

interface TargetRows {
  target: string
  rows: number
}

export function storeStatus(sql: Statements): StoreStatus {
  const counts = startCounting()
  countStored(sql, counts)
  countQueued(sql, counts)
  const waits = oldestWaits(sql)
  for (const [target, { ofPriorities }] of waits) counts.of(target).oldestReady = ofPriorities
  noteGroups(sql, counts, waits)
  noteStops(sql, counts)
  return {
    states: counts.states,
    targets: counts.targets,
    expired: countExpired(sql, counts),
    oldestReady: oldestOf(waits),
    oldestUnknown: (sql.oldestUnknown.get() as number | null) ?? null,
    orphans: sql.countOrphans.get() as number,
    stuckKeys: longestStuck(sql),
  }
}

function startCounting(): Counts {
  const states: Counts['states'] = {}
  const targets: Counts['targets'] = {}
  const of = (name: string) => (targets[name] ??= { ...UNSEEN_TARGET })
  return {
    states,
    targets,
    of,
    add: (name, state, rows) => {
      const target = of(name)
      target.states = { ...target.states, [state]: (target.states[state] ?? 0) + rows }
      states[state] = (states[state] ?? 0) + rows
    },
  }
}

/** What was called at least once. */
function countStored(sql: Statements, { add, of }: Counts): void {
  const lastId = (sql.lastTaskStateId.get() as number | null) ?? 0
  for (let after = 0; after < lastId; after += COUNTED_AT_ONCE) {
    const slice = { after, through: after + COUNTED_AT_ONCE }
    for (const { target, state, rows } of sql.countStates.all(slice) as (TargetRows & { state: RequestState })[])
      add(target, state, rows)
    for (const { target, rows, due_at } of sql.countParked.all(slice) as (TargetRows & { due_at: number })[]) {
      const { parked, parkedUntil } = of(target)
      Object.assign(of(target), { parked: parked + rows, parkedUntil: Math.min(parkedUntil ?? due_at, due_at) })
    }
  }
}

/** Those in line behind another of their ordering key are ready or scheduled too. */
function countQueued(sql: Statements, { add, of }: Counts): void {
  for (const ready of [sql.countReady, sql.countReadyBehind])
    for (const { target, rows } of ready.all() as TargetRows[]) add(target, 'ready', rows)
  for (const scheduled of [sql.countWaiting, sql.countScheduledBehind])
    for (const { target, rows } of scheduled.all() as TargetRows[]) add(target, 'scheduled', rows)
  for (const { target, rows } of sql.countStuck.all() as TargetRows[]) of(target).stuck = rows
}

function noteGroups(sql: Statements, { of }: Counts, waits: ReadonlyMap<string, OldestWaits>): void {
  const grouped = sql.countGroups.all() as TargetRows[]
  if (grouped.length === 0) return
  // Whose groups those behind another are of stands in their requests alone, which would be read one by one.
  const behind = new Set((sql.countReadyBehind.all() as TargetRows[]).map(({ target }) => target))
  for (const { target, rows } of grouped) {
    of(target).groups = {
      ready: rows,
      longest: sql.longestGroups.all(target, SHOWN_GROUPS) as GroupsStatus['longest'],
      headsOnly: behind.has(target),
      oldest: waits.get(target)?.ofGroups ?? null,
    }
  }
}

/** A person's pauses, breakers, and waits that an API told. */
function noteStops(sql: Statements, { of }: Counts): void {
  for (const row of sql.targetRows.all() as PauseRow[]) {
    Object.assign(of(row.target), {
      paused: row.paused_at !== null,
      pausedAt: row.paused_at,
      pausedBy: row.paused_by,
      pauseReason: row.pause_reason,
    })
  }
  for (const [name, breaker] of readBreakers(sql)) {
    if (breaker.kind !== 'open') continue
    const { kind: _, ...view } = breaker
    of(name).breaker = view
  }
  const members = sql.bucketMembers.all() as { target: string; bucket: string }[]
  for (const pause of (sql.timedPauses.all() as TimedPauseRow[]).map(toTimedPause)) {
    const { scope, name } = pause
    const stopped =
      scope === 'target' ? [name] : members.filter(({ bucket }) => bucket === name).map(({ target }) => target)
    for (const target of stopped) of(target).waits = [...of(target).waits, pause]
  }
}

function countExpired(sql: Statements, { of }: Counts): number {
  const found = sql.countExpired.all() as TargetRows[]
  for (const { target, rows } of found) of(target).expired = rows
  return found.reduce((sum, { rows }) => sum + rows, 0)
}

function longestStuck(sql: Statements): StuckKey[] {
  const rows = sql.longestStuck.all(SHOWN_KEYS) as {
    target: string
    ordering_key: string
    request_id: number
    followers: number
    since: number
  }[]
  return rows.flatMap(({ target, ordering_key: orderingKey, request_id: headId, followers, since }) => {
    const head = requestView(sql, headId)
    return head === null ? [] : [{ target, orderingKey, since, followers, head }]
  })
}
