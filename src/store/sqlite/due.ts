// When a turn has something to do without being told. Instants are UTC epoch ms; null: never.
import type { Statements } from './statements.ts'

/** When a request comes due, or its deadline does, or a lease ends next. */
export function nextDueAt(sql: Statements): number | null {
  return earliest(sql.nextWaitingAt.get(), sql.nextExpiryAt.get(), sql.nextLeaseEnd.get())
}

/** When a row is to be looked into next. @param served a JSON list of targets. */
export function nextCheckAt(sql: Statements, served: string): number | null {
  return earliest(sql.nextUnknownAt.get(served), sql.nextTrackedAt.get(served))
}

/** @param instants what is no number is no instant. */
export function earliest(...instants: unknown[]): number | null {
  const known = instants.filter((at) => typeof at === 'number')
  return known.length === 0 ? null : Math.min(...known)
}
