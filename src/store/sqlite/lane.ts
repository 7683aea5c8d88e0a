// One target's lane in one turn: what may begin, and its head of the queue, read ahead a few at a time.
import type { ClaimTarget, Standing } from '../turn.ts'
import type { Permits } from './permits.ts'
import { orderIn } from './rankings.ts'
import type { Statements } from './statements.ts'
import type { Turn } from './turn-context.ts'

export interface Head {
  readonly target: string
  readonly rank: number
  readonly due_at: number
  readonly request_id: number
}

export interface Lane {
  readonly target: string
  readonly isPaused: boolean
  /** Null: nobody keeps account, and the order of the heads alone decides. */
  readonly standing: Standing | null
  taken: number
  /** Every one of them must let a call begin; lanes that share a bucket share its permits. */
  readonly permits: readonly Permits[]
  heads: Head[]
  /** Of the first of them: comparable between targets. */
  order: number
  /** The last that was read ahead. */
  last: Head | null
  isDrained: boolean
  /** The last head that was taken off it, and the highest id of all that were. */
  through: Head | null
  highestId: number
}

export function openLane({ name }: ClaimTarget, facts: Pick<Lane, 'isPaused' | 'standing' | 'permits'>): Lane {
  return {
    target: name,
    ...facts,
    taken: 0,
    heads: [],
    order: 0,
    last: null,
    isDrained: false,
    through: null,
    highestId: 0,
  }
}

export function isOpen({ isPaused, standing, taken: begun, permits }: Lane): boolean {
  if (isPaused || (standing !== null && begun >= standing.room)) return false
  for (const { taken, open } of permits) if (taken >= open) return false
  return true
}

/** Reads ahead where it must. @param chunk how far. @returns whether there is one. */
export function hasHead(turn: Turn, lane: Lane, chunk: number): boolean {
  if (lane.heads.length === 0 && !lane.isDrained) {
    readAhead(turn.sql, lane, chunk)
    noteOrder(turn, lane)
  }
  return lane.heads.length > 0
}

/** Of a lane that has one. */
export function takeHead(turn: Turn, lane: Lane): Head {
  const head = lane.heads.shift() as Head
  lane.through = head
  lane.highestId = Math.max(lane.highestId, head.request_id)
  noteOrder(turn, lane)
  return head
}

/** Both have a head: the one with fewer calls in flight, else the more urgent, else who waited longer. */
export function goesFirst(lane: Lane, other: Lane): boolean {
  const moreRoom = roomOf(lane) - roomOf(other)
  if (moreRoom !== 0) return moreRoom > 0
  if (lane.order !== other.order) return lane.order < other.order
  const waitedLess = (lane.standing?.lastTaken ?? 0) - (other.standing?.lastTaken ?? 0)
  if (waitedLess !== 0) return waitedLess < 0
  const [a, b] = [lane.heads[0] as Head, other.heads[0] as Head]
  return a.due_at !== b.due_at ? a.due_at < b.due_at : a.request_id < b.request_id
}

/** Heads leave in the order of the index, so what was taken is all that stands before the last of them. */
export function deleteTaken(sql: Statements, { target, through, highestId }: Lane): number {
  if (through === null) return 0
  return sql.deleteReadyThrough.run(target, through.rank, through.due_at, through.request_id, highestId).changes
}

/** When all that time ends of what holds it back is over; null: it is open, or waits for the end of a call. */
export function openingOf({ isPaused, isDrained, heads, permits }: Lane): number | null {
  if (isPaused || (isDrained && heads.length === 0)) return null
  let opensAt: number | null = null
  for (const closed of permits) {
    if (closed.taken < closed.open) continue
    const at = closed.opensAt()
    if (at !== null) opensAt = Math.max(opensAt ?? at, at)
  }
  return opensAt
}

function noteOrder({ rankings, word }: Turn, lane: Lane): void {
  const head = lane.heads[0]
  // Whatever the target is ranked by.
  if (head !== undefined) lane.order = orderIn(rankings, lane.target, head.rank, word.now)
}

function readAhead(sql: Statements, lane: Lane, chunk: number): void {
  const from = lane.last
  const after = from === null ? [Number.MIN_SAFE_INTEGER, 0, 0] : [from.rank, from.due_at, from.request_id]
  lane.heads = sql.laneHead.all(lane.target, ...after, chunk) as Head[]
  lane.isDrained = lane.heads.length < chunk
  lane.last = lane.heads.at(-1) ?? lane.last
}

function roomOf({ standing, taken }: Lane): number {
  return standing === null ? 0 : standing.room - taken
}
