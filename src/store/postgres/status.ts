// The whole store in numbers, counted by the server.
import type { RequestState } from '../../core/task-state.ts'
import { SHOWN_GROUPS, SHOWN_KEYS } from '../bounds.ts'
import { type BreakerRow, toBreaker } from '../sqlite/breakers.ts'
import { type PauseRow, type TimedPauseRow, toTimedPause } from '../sqlite/pauses.ts'
import { type RequestView, type StoreStatus, type StuckKey, type TargetStatus, UNSEEN_TARGET } from '../views.ts'
import type { Transaction } from './connection.ts'

/** States of heads that do not move by being called. */
export const STUCK = `('unknown', 'held', 'dead')`

type Read = <T>(work: (tx: Transaction) => Promise<T>) => Promise<T>
type ViewsOf = (tx: Transaction, ids: readonly number[]) => Promise<readonly RequestView[]>
type Counted = { -readonly [K in keyof TargetStatus]: TargetStatus[K] }

/** @param s the schema, quoted. */
export function createStatus(s: string, read: Read, viewsOf: ViewsOf): () => Promise<StoreStatus> {
  return () => read((tx) => statusOf(s, tx, viewsOf))
}

async function statusOf(s: string, tx: Transaction, viewsOf: ViewsOf): Promise<StoreStatus> {
  const states: Partial<Record<RequestState, number>> = {}
  const targets: Record<string, Counted> = {}
  const of = (name: string) => (targets[name] ??= { ...UNSEEN_TARGET })
  for (const { target, state, rows } of await tx.query<{ target: string; state: RequestState; rows: number }>(
    statesSql(s),
  )) {
    states[state] = (states[state] ?? 0) + rows
    of(target).states = { ...of(target).states, [state]: rows }
  }
  for (const { target, rows, due_at } of await tx.query<{ target: string; rows: number; due_at: number }>(
    `SELECT t.target, COUNT(*) AS rows, MIN(w.due_at) AS due_at FROM ${s}.waiting w JOIN ${s}.task_state t USING (request_id)
     WHERE t.state = 'queued' AND t.reason = 'parked' GROUP BY t.target`,
  ))
    Object.assign(of(target), { parked: rows, parkedUntil: due_at })
  let oldestReady: number | null = null
  for (const { target, priority, since } of await tx.query<{ target: string; priority: number; since: number }>(
    `SELECT q.target, p.priority, MIN(q.due_at) AS since FROM ${s}.ready q JOIN ${s}.requests p USING (request_id)
     GROUP BY q.target, p.priority ORDER BY q.target, p.priority DESC`,
  )) {
    oldestReady = Math.min(oldestReady ?? since, since)
    of(target).oldestReady = [...of(target).oldestReady, { priority, since }]
  }
  for (const { target, group_key: group, ready } of await tx.query<{
    target: string
    group_key: string
    ready: number
  }>(
    `SELECT target, group_key, COUNT(*) AS ready FROM ${s}.ready WHERE group_key <> '' GROUP BY target, group_key
     ORDER BY target, ready DESC, group_key`,
  )) {
    const { ready: groups, longest } = of(target).groups
    of(target).groups = {
      ...of(target).groups,
      ready: groups + 1,
      longest: longest.length < SHOWN_GROUPS ? [...longest, { group, ready }] : longest,
    }
  }
  await noteOldestGroups(s, tx, of)
  let expired = 0
  for (const { target, rows } of await tx.query<{ target: string; rows: number }>(
    `SELECT target, COUNT(*) AS rows FROM ${s}.task_state WHERE state = 'dead' AND reason = 'expired' GROUP BY target`,
  )) {
    of(target).expired = rows
    expired += rows
  }
  await noteStops(s, tx, of)
  const [sums] = await tx.query<{ unknown: number | null; orphans: number }>(
    `SELECT (SELECT MIN(unknown_since) FROM ${s}.task_state WHERE state = 'unknown') AS unknown,
       (SELECT COUNT(*) FROM ${s}.orphans) AS orphans`,
  )
  return {
    states,
    targets,
    expired,
    oldestReady,
    oldestUnknown: sums?.unknown ?? null,
    orphans: sums?.orphans ?? 0,
    stuckKeys: await longestStuck(s, tx, viewsOf, of),
  }
}

/** Of targets with groups. What is counted of each is what stands in `ready`: of an ordering key the first alone. */
async function noteOldestGroups(s: string, tx: Transaction, of: (name: string) => Counted): Promise<void> {
  for (const { target, group_key: group, since, behind } of await tx.query<{
    target: string
    group_key: string
    since: number
    behind: boolean
  }>(
    `SELECT DISTINCT ON (q.target) q.target, q.group_key, q.due_at AS since, EXISTS (SELECT 1 FROM ${s}.ordering_followers f
       WHERE f.target = q.target AND f.due_at <= GREATEST(f.since_at, (SELECT high_water_at FROM ${s}.store))) AS behind
     FROM ${s}.ready q ORDER BY q.target, q.due_at, q.group_key = '', q.group_key`,
  )) {
    const { groups } = of(target)
    if (groups.ready === 0) continue
    of(target).groups = { ...groups, headsOnly: behind, oldest: { group: group === '' ? null : group, since } }
  }
}

/** Those in line behind another of their ordering key are ready or scheduled too. */
function statesSql(s: string): string {
  const isDue = `f.due_at <= GREATEST(f.since_at, (SELECT high_water_at FROM ${s}.store))`
  return `SELECT target, state, SUM(rows)::bigint AS rows FROM (
    SELECT target, state, COUNT(*) AS rows FROM ${s}.task_state WHERE state <> 'queued' GROUP BY target, state
    UNION ALL SELECT target, 'ready', COUNT(*) FROM ${s}.ready GROUP BY target
    UNION ALL SELECT target, 'scheduled', COUNT(*) FROM ${s}.waiting GROUP BY target
    UNION ALL SELECT target, CASE WHEN ${isDue} THEN 'ready' ELSE 'scheduled' END, COUNT(*) FROM ${s}.ordering_followers f
      WHERE f.due_at IS NOT NULL GROUP BY 1, 2) counted GROUP BY target, state`
}

async function noteStops(s: string, tx: Transaction, of: (name: string) => Counted): Promise<void> {
  for (const row of await tx.query<PauseRow>(`SELECT * FROM ${s}.targets`)) {
    Object.assign(of(row.target), {
      paused: row.paused_at !== null,
      pausedAt: row.paused_at,
      pausedBy: row.paused_by,
      pauseReason: row.pause_reason,
    })
  }
  for (const row of await tx.query<BreakerRow>(`SELECT * FROM ${s}.breakers`)) {
    const { kind, ...view } = toBreaker(row)
    if (kind === 'open') of(row.target).breaker = view as Counted['breaker']
  }
  const members = await tx.query<{ target: string; bucket: string }>(`SELECT target, bucket FROM ${s}.bucket_members`)
  for (const pause of (await tx.query<TimedPauseRow>(`SELECT * FROM ${s}.timed_pauses`)).map(toTimedPause)) {
    const { scope, name } = pause
    const stopped =
      scope === 'target' ? [name] : members.filter(({ bucket }) => bucket === name).map(({ target }) => target)
    for (const target of stopped) of(target).waits = [...of(target).waits, pause]
  }
}

async function longestStuck(
  s: string,
  tx: Transaction,
  viewsOf: ViewsOf,
  of: (name: string) => Counted,
): Promise<StuckKey[]> {
  const stuck = `${s}.ordering_heads h JOIN ${s}.task_state t USING (request_id)
      JOIN LATERAL (SELECT COUNT(*) AS followers FROM ${s}.ordering_followers f
        WHERE f.target = h.target AND f.ordering_key = h.ordering_key) n ON n.followers > 0
    WHERE t.state IN ${STUCK}`
  for (const { target, rows } of await tx.query<{ target: string; rows: number }>(
    `SELECT h.target, SUM(n.followers)::bigint AS rows FROM ${stuck} GROUP BY h.target`,
  ))
    of(target).stuck = rows
  const keys = await tx.query<{
    target: string
    ordering_key: string
    request_id: number
    followers: number
    since: number
  }>(
    `SELECT h.target, h.ordering_key, h.request_id, n.followers,
       COALESCE(CASE t.state WHEN 'dead' THEN NULL ELSE t.unknown_since END, t.updated_at) AS since
     FROM ${stuck} ORDER BY since, h.request_id LIMIT $1`,
    [SHOWN_KEYS],
  )
  const heads = new Map(
    (
      await viewsOf(
        tx,
        keys.map(({ request_id: id }) => id),
      )
    ).map((view) => [view.requestId, view]),
  )
  return keys.flatMap(({ target, ordering_key: orderingKey, request_id: id, followers, since }) => {
    const head = heads.get(id)
    return head === undefined ? [] : [{ target, orderingKey, since, followers, head }]
  })
}
