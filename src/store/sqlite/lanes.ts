// The lanes of one turn: each served target's head of the queue, and how many calls it may still begin. First calls,
// replays and re-calls all go through here, so that limits hold for every one of them.
import type { Standing } from '../turn.ts'
import { type Permits, permitsOf, type Wait } from './permits.ts'
import { orderIn } from './rankings.ts'
import type { Statements } from './statements.ts'
import type { Turn } from './turn-context.ts'

export interface Head {
  readonly target: string
  readonly rank: number
  readonly due_at: number
  readonly request_id: number
}

interface Lane {
  readonly target: string
  readonly isPaused: boolean
  /** Null: nobody keeps account, and the order of the heads alone decides. */
  readonly standing: Standing | null
  taken: number
  /** Every one of them must let a call begin; lanes that share a bucket share its permits. */
  readonly permits: readonly Permits[]
  heads: Head[]
  /** The last that was read ahead. */
  last: Head | null
  isDrained: boolean
  /** The last head that was taken off it, and the highest id of all that were. */
  through: Head | null
  highestId: number
}

/** `until`: no call begins earlier; null: its limits, or a person's pause, whose end nobody knows. */
export type Closed = Wait | { readonly why: 'target_paused' | 'limited'; readonly until: null }

export interface Lanes {
  /** Null: a call of this target may begin, and is counted. Else why not. */
  take(target: string, requestId: number): Closed | null
  /**
   * The next request, taken off its lane: of the open lane that has fewest calls in flight, else the more urgent one, else the one
   * that waited longer. `wanted` bounds the reading ahead.
   */
  nextHead(wanted: number): Head | null
  /** Deletes what was taken from the queue. @returns how many of them still were there. */
  dequeue(): number
  /** Writes down what was taken. @returns when the first lane that time will open does; null where none is closed so. */
  charge(): number | null
}

export function openLanes(turn: Turn): Lanes {
  const { sql, input } = turn
  const paused = new Set(sql.pausedTargets.all() as string[])
  const permits = permitsOf(turn)
  const lanes = new Map(
    input.claim.targets.map(({ name, policy }): [string, Lane] => {
      const standing = input.claim.standingOf?.(name) ?? null
      const lane = { target: name, isPaused: paused.has(name), standing, permits: permits({ name, policy }) }
      return [name, { ...lane, taken: 0, heads: [], last: null, isDrained: false, through: null, highestId: 0 }]
    }),
  )
  return {
    take: (target, requestId) => {
      const lane = lanes.get(target)
      if (lane === undefined || lane.isPaused) return { why: 'target_paused', until: null }
      const wait = lane.permits.reduce<Wait | null>(laterWait, null)
      if (wait !== null) return wait
      if (!isOpen(lane)) return { why: 'limited', until: null }
      lane.taken++
      for (const permits of lane.permits) {
        permits.taken++
        permits.takenBy = requestId
      }
      return null
    },
    nextHead: (wanted) => takeHead(turn, lanes, wanted),
    dequeue: () => [...lanes.values()].reduce((gone, lane) => gone + deleteTaken(sql, lane), 0),
    charge: () => charge(lanes.values()),
  }
}

function laterWait(latest: Wait | null, { waits }: Permits): Wait | null {
  return waits === null || (latest !== null && latest.until >= waits.until) ? latest : waits
}

function isOpen({ isPaused, standing, taken: begun, permits }: Lane): boolean {
  if (isPaused || (standing !== null && begun >= standing.room)) return false
  for (const { taken, open } of permits) if (taken >= open) return false
  return true
}

/** One lane is read ahead as far as it can be needed; many are probed a few heads at a time. */
function takeHead(turn: Turn, lanes: ReadonlyMap<string, Lane>, wanted: number): Head | null {
  const chunk = Math.max(1, Math.ceil(wanted / lanes.size))
  let best: Lane | null = null
  for (const lane of lanes.values()) {
    if (!isOpen(lane)) continue
    if (lane.heads.length === 0 && !lane.isDrained) readAhead(turn.sql, lane, chunk)
    const head = lane.heads[0]
    if (head !== undefined && (best === null || goesFirst(turn, lane, best))) best = lane
  }
  const head = best?.heads.shift()
  if (best === null || head === undefined) return null
  best.through = head
  best.highestId = Math.max(best.highestId, head.request_id)
  return head
}

/** Heads leave in the order of the index, so what was taken is all that stands before the last of them. */
function deleteTaken(sql: Statements, { target, through, highestId }: Lane): number {
  if (through === null) return 0
  return sql.deleteReadyThrough.run(target, through.rank, through.due_at, through.request_id, highestId).changes
}

function readAhead(sql: Statements, lane: Lane, chunk: number): void {
  const from = lane.last
  const after = from === null ? [Number.MIN_SAFE_INTEGER, 0, 0] : [from.rank, from.due_at, from.request_id]
  lane.heads = sql.laneHead.all(lane.target, ...after, chunk) as Head[]
  lane.isDrained = lane.heads.length < chunk
  lane.last = lane.heads.at(-1) ?? lane.last
}

/** Both have a head. */
function goesFirst({ rankings, word }: Turn, lane: Lane, other: Lane): boolean {
  const [a, b] = [lane.heads[0] as Head, other.heads[0] as Head]
  const moreRoom = roomOf(lane) - roomOf(other)
  if (moreRoom !== 0) return moreRoom > 0
  // Whatever each of them is ranked by.
  const order = orderIn(rankings, a.target, a.rank, word.now) - orderIn(rankings, b.target, b.rank, word.now)
  if (order !== 0) return order < 0
  const waitedLess = (lane.standing?.lastTaken ?? 0) - (other.standing?.lastTaken ?? 0)
  if (waitedLess !== 0) return waitedLess < 0
  return a.due_at !== b.due_at ? a.due_at < b.due_at : a.request_id < b.request_id
}

function roomOf({ standing, taken }: Lane): number {
  return standing === null ? 0 : standing.room - taken
}

function charge(lanes: Iterable<Lane>): number | null {
  let next: number | null = null
  const charged = new Set<Permits>()
  for (const lane of lanes) {
    if (lane.permits.length === 0) continue
    for (const permits of lane.permits) {
      if (!charged.has(permits)) permits.save()
      charged.add(permits)
    }
    const opensAt = lane.isPaused || (lane.isDrained && lane.heads.length === 0) ? null : openingOf(lane)
    if (opensAt !== null) next = Math.min(next ?? opensAt, opensAt)
  }
  return next
}

/** When all that time ends of what holds it back is over; null: it is open, or waits for the end of a call. */
function openingOf({ permits }: Lane): number | null {
  let opensAt: number | null = null
  for (const closed of permits) {
    if (closed.taken < closed.open) continue
    const at = closed.opensAt()
    if (at !== null) opensAt = Math.max(opensAt ?? at, at)
  }
  return opensAt
}
