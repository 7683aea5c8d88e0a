// Since when the longest waiting request of each priority has been due: read off the heads of the index, skipping from one priority
// to the next, so that a million that wait behind them cost nothing.
import type { PriorityWait } from '../views.ts'
import type { Statements } from './statements.ts'

export function oldestWaits(sql: Statements): ReadonlyMap<string, readonly PriorityWait[]> {
  const waits = new Map<string, readonly PriorityWait[]>()
  let target = sql.nextLane.get('') as string | undefined
  for (; target !== undefined; target = sql.nextLane.get(target) as string | undefined) {
    waits.set(target, waitsOf(sql, target))
  }
  return waits
}

export function oldestOf(waits: ReadonlyMap<string, readonly PriorityWait[]>): number | null {
  let oldest: number | null = null
  for (const { since } of [...waits.values()].flat()) if (oldest === null || since < oldest) oldest = since
  return oldest
}

interface PlainHead {
  readonly rank: number
  readonly due_at: number
}

/**
 * While aging is being turned on or off, a priority may have a head in both rankings. While one step takes the place of another, two
 * priorities can be worth the same, and the one that waits longer is told alone.
 */
function waitsOf(sql: Statements, target: string): readonly PriorityWait[] {
  const oldest = new Map<number, number>()
  const note = (priority: number, since: number) => {
    oldest.set(priority, Math.min(oldest.get(priority) ?? Number.POSITIVE_INFINITY, since))
  }
  // With groups each of them has a head of each priority: there can be as many as requests, which are counted anyway.
  for (const head of sql.groupedHeads.all({ target }) as PlainHead[]) note(-head.rank, head.due_at)
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const head = sql.nextPlainHead.get(target, '', after) as PlainHead | undefined
    if (head === undefined) break
    note(-head.rank, head.due_at)
    after = head.rank
  }
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const head = sql.nextAgedHead.get(target, after) as { worth: number; due_at: number; priority: number } | undefined
    if (head === undefined) break
    note(head.priority, head.due_at)
    after = head.worth
  }
  return [...oldest].sort(([a], [b]) => b - a).map(([priority, since]) => ({ priority, since }))
}
