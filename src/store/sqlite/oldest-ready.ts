// Since when the longest waiting request of each priority has been due: read off the heads of the index, skipping from one priority
// to the next, so that a million that wait behind them cost nothing.
import type { GroupsStatus, PriorityWait } from '../views.ts'
import type { Statements } from './statements.ts'

export interface OldestWaits {
  readonly ofPriorities: readonly PriorityWait[]
  /** Whose is the oldest of all. */
  readonly ofGroups: GroupsStatus['oldest']
}

export function oldestWaits(sql: Statements): ReadonlyMap<string, OldestWaits> {
  const waits = new Map<string, OldestWaits>()
  let target = sql.nextLane.get('') as string | undefined
  for (; target !== undefined; target = sql.nextLane.get(target) as string | undefined) {
    waits.set(target, waitsOf(sql, target))
  }
  return waits
}

export function oldestOf(waits: ReadonlyMap<string, OldestWaits>): number | null {
  let oldest: number | null = null
  for (const { ofGroups } of waits.values())
    if (ofGroups !== null && (oldest === null || ofGroups.since < oldest)) oldest = ofGroups.since
  return oldest
}

interface PlainHead {
  readonly rank: number
  readonly due_at: number
}

interface GroupedHead extends PlainHead {
  readonly group_key: string
}

/**
 * While aging is being turned on or off, a priority may have a head in both rankings. While one step takes the place of another, two
 * priorities can be worth the same, and the one that waits longer is told alone.
 */
function waitsOf(sql: Statements, target: string): OldestWaits {
  const oldest = new Map<number, number>()
  let ofGroups: GroupsStatus['oldest'] = null
  const note = (priority: number, since: number, group: string | null) => {
    oldest.set(priority, Math.min(oldest.get(priority) ?? Number.POSITIVE_INFINITY, since))
    // Of those that were enqueued together, one with a name says more.
    if (ofGroups === null || since < ofGroups.since || (since === ofGroups.since && ofGroups.group === null))
      ofGroups = { group, since }
  }
  // With groups each of them has a head of each priority: there can be as many as requests, which are counted anyway.
  for (const head of sql.groupedHeads.all({ target }) as GroupedHead[]) note(-head.rank, head.due_at, head.group_key)
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const head = sql.nextPlainHead.get(target, '', after) as PlainHead | undefined
    if (head === undefined) break
    note(-head.rank, head.due_at, null)
    after = head.rank
  }
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const head = sql.nextAgedHead.get(target, after) as AgedHead | undefined
    if (head === undefined) break
    note(head.priority, head.due_at, head.group_key)
    after = head.worth
  }
  const ofPriorities = [...oldest].sort(([a], [b]) => b - a).map(([priority, since]) => ({ priority, since }))
  return { ofPriorities, ofGroups }
}

interface AgedHead {
  worth: number
  due_at: number
  priority: number
  group_key: string | null
}
