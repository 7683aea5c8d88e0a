// The lanes of one turn: each served target's head of the queue, and how many calls it may still begin. First calls,
// replays and re-calls all go through here, so that limits hold for every one of them.
import { LANES_A_TURN } from '../bounds.ts'
import type { ClaimTarget } from '../turn.ts'
import { endTurnOf, goesFirst, hasHead, isOpen, type Lane, openingOf, openLane, takeHead } from './lane.ts'
import { type Permits, permitsOf, type Wait } from './permits.ts'
import { deleteTaken, type Head, moveOn } from './rotation.ts'
import type { Statements } from './statements.ts'
import type { Turn } from './turn-context.ts'

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
  /** The head that `nextHead` gave last is called: it is counted, and its group has had its turn. */
  begin(head: Head): void
  /** Deletes what was taken from the queue. @returns how many of them still were there. */
  dequeue(): number
  /** Once the queue is as this turn leaves it: groups that gave a request go behind the others. */
  moveOn(): void
  /** Writes down what was taken. @returns when the first lane that time will open does; null where none is closed so. */
  charge(): number | null
  /** Where the next turn begins to look, where this one has looked at a part of the lanes; null: at all of them. */
  lookedThrough(): string | null
}

export function openLanes(turn: Turn): Lanes {
  const { sql, input } = turn
  const paused = new Set(sql.pausedTargets.all() as string[])
  const permits = permitsOf(turn)
  const served = new Map(input.claim.targets.map((target) => [target.name, target]))
  const lanes = new Map<string, Lane>()
  const laneOf = (target: ClaimTarget): Lane => {
    const { name } = target
    const known = lanes.get(name)
    if (known !== undefined) return known
    const standing = input.claim.standingOf(name)
    const lane = openLane(target, { isPaused: paused.has(name), standing, permits: permits(target) })
    lanes.set(name, lane)
    return lane
  }
  const rotations = () => [...lanes.values()].flatMap(({ rotation }) => rotation ?? [])
  let looked: LookedAt | null = null

  return {
    take: (target, requestId) => {
      const known = served.get(target)
      return known === undefined ? { why: 'target_paused', until: null } : take(laneOf(known), requestId)
    },
    nextHead: (wanted) => {
      looked ??= lookAround(turn, served, laneOf, Math.min(wanted, LANES_A_TURN))
      return nextHead(turn, looked, wanted)
    },
    begin: ({ target, request_id: id }) => {
      const lane = lanes.get(target) as Lane
      take(lane, id)
      endTurnOf(lane)
    },
    dequeue: () => rotations().reduce((gone, rotation) => gone + deleteTaken(sql, rotation), 0),
    moveOn: () => {
      for (const rotation of rotations()) moveOn(sql, rotation)
    },
    charge: () => charge(lanes.values()),
    lookedThrough: () => looked?.through ?? null,
  }
}

interface LookedAt {
  readonly lanes: readonly Lane[]
  /** The last of them, where there are others; null: these are all. */
  readonly through: string | null
  /** Asked once what this turn's answers and verdicts have queued is there. */
  readonly mayBeGrouped: boolean
}

/**
 * Few are all looked at. Of many, those that have something ready, from where the last turn ended, until enough of them are open: so
 * that a turn costs the same however many targets there are, and each comes up in turn.
 */
function lookAround(
  { sql, input }: Turn,
  served: ReadonlyMap<string, ClaimTarget>,
  laneOf: (target: ClaimTarget) => Lane,
  needed: number,
): LookedAt {
  const mayBeGrouped = sql.isGrouped.get() === 1
  if (served.size <= LANES_A_TURN) return { lanes: [...served.values()].map(laneOf), through: null, mayBeGrouped }
  const from = input.claim.lookFrom ?? ''
  const lanes: Lane[] = []
  let open = 0
  for (const name of readyTargets(sql, from)) {
    const target = served.get(name)
    if (target === undefined) continue
    const lane = laneOf(target)
    lanes.push(lane)
    if (isOpen(lane) && ++open >= needed) return { lanes, through: name, mayBeGrouped }
  }
  return { lanes, through: null, mayBeGrouped }
}

/** All that have something ready, each once: those behind `from`, then those before. */
function* readyTargets(sql: Statements, from: string): Iterable<string> {
  const next = (after: string) => sql.nextLane.get(after) as string | undefined
  for (let name = next(from); name !== undefined; name = next(name)) yield name
  for (let name = next(''); name !== undefined && name <= from; name = next(name)) yield name
}

function nextHead(turn: Turn, { lanes, mayBeGrouped }: LookedAt, wanted: number): Head | null {
  // One lane is read ahead as far as it can be needed; many are probed a few heads at a time.
  const ahead = Math.max(1, Math.ceil(wanted / lanes.length))
  let best: Lane | null = null
  for (const lane of lanes) {
    if (!isOpen(lane) || !hasHead(turn, lane, ahead, mayBeGrouped)) continue
    if (best === null || goesFirst(lane, best)) best = lane
  }
  return best === null ? null : takeHead(best)
}

function take(lane: Lane, requestId: number): Closed | null {
  if (lane.isPaused) return { why: 'target_paused', until: null }
  const wait = lane.permits.reduce<Wait | null>(laterWait, null)
  if (wait !== null) return wait
  if (!isOpen(lane)) return { why: 'limited', until: null }
  lane.taken++
  for (const permits of lane.permits) {
    permits.taken++
    permits.takenBy = requestId
  }
  return null
}

function laterWait(latest: Wait | null, { waits }: Permits): Wait | null {
  return waits === null || (latest !== null && latest.until >= waits.until) ? latest : waits
}

function charge(lanes: Iterable<Lane>): number | null {
  let next: number | null = null
  const charged = new Set<Permits>()
  for (const lane of lanes) {
    for (const permits of lane.permits) {
      if (!charged.has(permits)) permits.save()
      charged.add(permits)
    }
    const opensAt = openingOf(lane)
    if (opensAt !== null) next = Math.min(next ?? opensAt, opensAt)
  }
  return next
}
