// One target's lane in one turn: what may begin, and what comes next of its queue.
import type { ClaimTarget, Standing } from '../turn.ts'
import type { Permits } from './permits.ts'
import { orderIn } from './rankings.ts'
import { endTurn, type Head, isExhausted, openRotation, peekNext, type Rotation, takeNext } from './rotation.ts'
import type { Turn } from './turn-context.ts'

export interface Lane {
  readonly target: string
  readonly isPaused: boolean
  /** Of its target, as the turn began. */
  readonly standing: Standing
  taken: number
  /** Every one of them must let a call begin; lanes that share a bucket share its permits. */
  readonly permits: readonly Permits[]
  /** Null: it was not looked at. */
  rotation: Rotation | null
  /** What comes next; null: nothing, or it was not looked at. */
  head: Head | null
  /** Of the head: comparable between targets. */
  order: number
}

export function openLane({ name }: ClaimTarget, facts: Pick<Lane, 'isPaused' | 'standing' | 'permits'>): Lane {
  return { target: name, ...facts, taken: 0, rotation: null, head: null, order: 0 }
}

export function isOpen({ isPaused, standing, taken: begun, permits }: Lane): boolean {
  if (isPaused || begun >= standing.room) return false
  for (const { taken, open } of permits) if (taken >= open) return false
  return true
}

/** @param wanted how far to read ahead. @param mayBeGrouped whether any target has groups with something ready. */
export function hasHead({ sql, rankings, word }: Turn, lane: Lane, wanted: number, mayBeGrouped: boolean): boolean {
  if (lane.head !== null) return true
  lane.rotation ??= openRotation(lane.target, mayBeGrouped)
  const head = peekNext(sql, lane.rotation, wanted)
  if (head === null) return false
  lane.head = head
  // Whatever the target is ranked by.
  lane.order = orderIn(rankings, lane.target, head.rank, word.now)
  return true
}

/** Of a lane that has one. */
export function takeHead(lane: Lane): Head {
  lane.head = null
  return takeNext(lane.rotation as Rotation)
}

/** The head that was taken last is called. */
export function endTurnOf(lane: Lane): void {
  lane.head = null
  endTurn(lane.rotation as Rotation)
}

/** Both have a head: the one with fewer calls in flight, else the more urgent, else who waited longer. */
export function goesFirst(lane: Lane, other: Lane): boolean {
  const moreRoom = roomOf(lane) - roomOf(other)
  if (moreRoom !== 0) return moreRoom > 0
  if (lane.order !== other.order) return lane.order < other.order
  const waitedLess = lane.standing.lastTaken - other.standing.lastTaken
  if (waitedLess !== 0) return waitedLess < 0
  const [a, b] = [lane.head as Head, other.head as Head]
  return a.due_at !== b.due_at ? a.due_at < b.due_at : a.request_id < b.request_id
}

/** When all that time ends of what holds it back is over; null: it is open, or waits for the end of a call. */
export function openingOf({ isPaused, rotation, permits }: Lane): number | null {
  if (isPaused || (rotation !== null && isExhausted(rotation))) return null
  let opensAt: number | null = null
  for (const closed of permits) {
    if (closed.taken < closed.open) continue
    const at = closed.opensAt()
    if (at !== null) opensAt = Math.max(opensAt ?? at, at)
  }
  return opensAt
}

function roomOf({ standing, taken }: Lane): number {
  return standing.room - taken
}
