// The lanes of one turn: each served target's head of the queue, and how many calls it may still begin. First calls,
// replays and re-calls all go through here, so that limits hold for every one of them.
import type { RateLimit } from '../../core/policy.ts'
import { type Bucket, nextTokenAt, refill } from '../../core/token-bucket.ts'
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
  readonly rate: RateLimit | null
  readonly bucket: Bucket | null
  readonly isPaused: boolean
  /** How many calls it may begin in this turn. */
  readonly open: number
  taken: number
  heads: Head[]
  /** The last that was read ahead. */
  last: Head | null
  isDrained: boolean
  /** The last head that was taken off it, and the highest id of all that were. */
  through: Head | null
  highestId: number
}

export interface Lanes {
  /** Null: a call of this target may begin, and is counted. Else why not. */
  take(target: string): 'target_paused' | 'limited' | null
  /** The next request in claim order over all open lanes, taken off its lane; `wanted` bounds the reading ahead. */
  nextHead(wanted: number): Head | null
  /** Deletes what was taken from the queue. @returns how many of them still were there. */
  dequeue(): number
  /** @returns when the first lane that its rate has closed opens again; null where none is. */
  charge(): number | null
}

export function openLanes(turn: Turn): Lanes {
  const { sql, input, word } = turn
  const paused = new Set(sql.pausedTargets.all() as string[])
  const lanes = new Map(
    input.claim.targets.map(({ name, policy }): [string, Lane] => {
      const { rate, concurrency } = policy.limits
      const bucket = rate === null ? null : refill(readBucket(sql, name), rate, word.now)
      const free = concurrency === null ? Number.POSITIVE_INFINITY : concurrency - (sql.invokingOf.get(name) as number)
      const open = Math.min(free, bucket === null ? Number.POSITIVE_INFINITY : Math.floor(bucket.tokens))
      const lane = { target: name, rate, bucket, isPaused: paused.has(name), open }
      return [name, { ...lane, taken: 0, heads: [], last: null, isDrained: false, through: null, highestId: 0 }]
    }),
  )
  return {
    take: (target) => {
      const lane = lanes.get(target)
      if (lane === undefined || lane.isPaused) return 'target_paused'
      if (lane.taken >= lane.open) return 'limited'
      lane.taken++
      return null
    },
    nextHead: (wanted) => takeHead(turn, lanes, wanted),
    dequeue: () => [...lanes.values()].reduce((gone, lane) => gone + deleteTaken(sql, lane), 0),
    charge: () => charge(sql, lanes.values()),
  }
}

function readBucket(sql: Statements, target: string): Bucket | null {
  return (sql.bucket.get(target) as Bucket | undefined) ?? null
}

/** One lane is read ahead as far as it can be needed; many are probed a few heads at a time. */
function takeHead(turn: Turn, lanes: ReadonlyMap<string, Lane>, wanted: number): Head | null {
  const chunk = Math.max(1, Math.ceil(wanted / lanes.size))
  let best: Lane | null = null
  for (const lane of lanes.values()) {
    if (lane.isPaused || lane.taken >= lane.open) continue
    if (lane.heads.length === 0 && !lane.isDrained) readAhead(turn.sql, lane, chunk)
    const head = lane.heads[0]
    if (head !== undefined && (best === null || isBefore(turn, head, best.heads[0] as Head))) best = lane
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

/** Of different targets, whatever each is ranked by. */
function isBefore({ rankings, word }: Turn, a: Head, b: Head): boolean {
  const order = orderIn(rankings, a.target, a.rank, word.now) - orderIn(rankings, b.target, b.rank, word.now)
  if (order !== 0) return order < 0
  return a.due_at !== b.due_at ? a.due_at < b.due_at : a.request_id < b.request_id
}

function charge(sql: Statements, lanes: Iterable<Lane>): number | null {
  let next: number | null = null
  for (const { target, bucket, rate, taken, isDrained, heads, isPaused } of lanes) {
    if (bucket === null || rate === null) continue
    const charged = { tokens: bucket.tokens - taken, at: bucket.at }
    if (taken > 0) sql.saveBucket.run(target, charged.tokens, charged.at)
    if (isPaused || charged.tokens >= 1 || (isDrained && heads.length === 0)) continue
    next = Math.min(next ?? Number.POSITIVE_INFINITY, nextTokenAt(charged, rate))
  }
  return next
}
