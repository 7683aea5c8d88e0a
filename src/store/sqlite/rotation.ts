// One target's queue as its groups take turns: each gives one request and then stands behind the others, whatever the priorities of
// other groups, so that the flood of one keeps nobody waiting for longer than a round. Within a group the rank counts. Requests
// without a group stand together as one. The queue of a target without groups is a rotation of one.
import type { Statements } from './statements.ts'

export interface Head {
  readonly target: string
  readonly rank: number
  readonly due_at: number
  readonly request_id: number
}

export interface Rotation {
  readonly target: string
  isGrouped: boolean
  /** The first of them gives the next head; then those that gave one already. */
  upcoming: GroupQueue[]
  again: GroupQueue[]
  /** Those that something was taken from, and of them those that have had their turn, the last at the end. */
  readonly taken: Set<GroupQueue>
  readonly givers: Set<GroupQueue>
  /** The place of the last group that was read; null: all were. */
  readThrough: number | null
}

/** The queue of one group, read ahead a few at a time. */
interface GroupQueue {
  /** Empty: of the requests without a group. */
  readonly group: string
  heads: Head[]
  /** The last that was read ahead. */
  last: Head | null
  isDrained: boolean
  /** The last head that was taken off it, and the highest id of all that were. */
  through: Head | null
  highestId: number
}

/** @param mayBeGrouped whether any target has groups with something ready. */
export function openRotation(target: string, mayBeGrouped: boolean): Rotation {
  return {
    target,
    isGrouped: mayBeGrouped,
    upcoming: mayBeGrouped ? [] : [openQueue('')],
    again: [],
    taken: new Set(),
    givers: new Set(),
    readThrough: mayBeGrouped ? 0 : null,
  }
}

function openQueue(group: string): GroupQueue {
  return { group, heads: [], last: null, isDrained: false, through: null, highestId: 0 }
}

/** Reads ahead where it must. @param wanted how far. @returns what `takeNext` gives; null where nothing is ready. */
export function peekNext(sql: Statements, rotation: Rotation, wanted: number): Head | null {
  for (;;) {
    if (rotation.upcoming.length === 0 && rotation.readThrough !== null) readGroups(sql, rotation, wanted)
    if (rotation.upcoming.length === 0) {
      rotation.upcoming = rotation.again
      rotation.again = []
    }
    const queue = rotation.upcoming[0]
    if (queue === undefined) return null
    if (queue.heads.length === 0 && !queue.isDrained)
      readAhead(sql, rotation.target, queue, Math.ceil(wanted / rotation.upcoming.length))
    const head = queue.heads[0]
    if (head !== undefined) return head
    rotation.upcoming.shift()
  }
}

/** Of one that has a next: takes it off. Its group keeps the turn until `endTurn`: what dies uncalled is none. */
export function takeNext(rotation: Rotation): Head {
  const queue = rotation.upcoming[0] as GroupQueue
  const head = queue.heads.shift() as Head
  queue.through = head
  queue.highestId = Math.max(queue.highestId, head.request_id)
  rotation.taken.add(queue)
  return head
}

/** What was taken last is called. */
export function endTurn({ upcoming, again, givers }: Rotation): void {
  const queue = upcoming.shift() as GroupQueue
  givers.delete(queue)
  givers.add(queue)
  again.push(queue)
}

export function isExhausted({ upcoming, again, readThrough }: Rotation): boolean {
  return readThrough === null && upcoming.every(isEmpty) && again.every(isEmpty)
}

/** Heads leave in the order of the index, so what was taken of a group is all that stands before the last of them. */
export function deleteTaken(sql: Statements, { target, taken }: Rotation): number {
  let gone = 0
  for (const { group, through, highestId } of taken) {
    const { rank, due_at: dueAt, request_id: id } = through as Head
    gone += sql.deleteReadyThrough.run(target, group, rank, dueAt, id, highestId).changes
  }
  return gone
}

/** After the delete, and whatever came in its place: who gave a request goes behind the others, and who has none left goes. */
export function moveOn(sql: Statements, { target, isGrouped, taken, givers }: Rotation): void {
  if (!isGrouped) return
  for (const { group } of givers) sql.goBehindOthers.run({ target, group })
  for (const { group } of taken) sql.leaveRotation.run({ target, group })
}

function readGroups(sql: Statements, rotation: Rotation, wanted: number): void {
  const { target, readThrough } = rotation
  if (readThrough === 0) sql.enterRotationTogether.run({ target })
  const rows = sql.groupsAfter.all(target, readThrough, wanted) as { place: number; group_key: string }[]
  rotation.upcoming = rows.map(({ group_key: group }) => openQueue(group))
  rotation.readThrough = rows.length < wanted ? null : (rows.at(-1)?.place ?? null)
  if (readThrough !== 0 || rows.length > 0) return
  rotation.isGrouped = false
  rotation.upcoming = [openQueue('')]
}

function readAhead(sql: Statements, target: string, queue: GroupQueue, wanted: number): void {
  const from = queue.last
  const after = from === null ? [Number.MIN_SAFE_INTEGER, 0, 0] : [from.rank, from.due_at, from.request_id]
  queue.heads = sql.laneHead.all(target, queue.group, ...after, wanted) as Head[]
  queue.isDrained = queue.heads.length < wanted
  queue.last = queue.heads.at(-1) ?? queue.last
}

function isEmpty({ heads, isDrained }: GroupQueue): boolean {
  return isDrained && heads.length === 0
}
