// What happens to a row, as data: the core decides it, and the store executes it whole.
import type { Evidence } from './outcome.ts'
import type { StoredState, TaskState } from './task-state.ts'

export type TaskStatePatch = { -readonly [K in keyof TaskState]?: TaskState[K] }

export interface EventDraft {
  readonly kind: string
  readonly reason: string | null
  readonly detail?: unknown
}

export interface Orphan {
  readonly attempt: number
  readonly taskId: string
  readonly evidence: Evidence | null
}

/** One transition as data; the store executes it whole. */
export interface Transition {
  readonly kind: 'transition'
  readonly to: StoredState
  readonly patch: TaskStatePatch
  /** Where `to` is `queued`: when the request is due again. */
  readonly dueAt: number | null
  /** The next attempt renders its call anew. */
  readonly unfreeze: boolean
  /** The next attempt uses a new key, whose window begins with it. */
  readonly raiseGeneration: boolean
  readonly pauseTarget: string | null
  readonly orphan: Orphan | null
  /** Where `to` is `dead`: those of its ordering key wait until a person has retried, canceled or purged it. */
  readonly keepsPlace: boolean
  /** The payload is copied before the request leaves. */
  readonly keepPayload: boolean
  readonly event: EventDraft | null
}

export function transition(to: StoredState, parts: Partial<Omit<Transition, 'kind' | 'to'>> = {}): Transition {
  return {
    kind: 'transition',
    to,
    patch: {},
    dueAt: null,
    unfreeze: false,
    raiseGeneration: false,
    pauseTarget: null,
    orphan: null,
    keepsPlace: false,
    keepPayload: false,
    event: null,
    ...parts,
  }
}

export const RELEASED = { leaseOwner: null, leaseUntil: null } as const

/** @param keepsPlace those of its ordering key wait on, as its target says (`ordering.onDead`). */
export function dead(evidence: Evidence, reason: string, attempts: number, keepsPlace: boolean): Transition {
  return transition('dead', {
    patch: { ...RELEASED, attempts, nextCheckAt: null, reason, evidence },
    keepsPlace,
    unfreeze: true,
    event: { kind: 'dead', reason, detail: { evidence } },
  })
}

/** Its deadline is over: whatever surely had no effect is not called any more. */
export function isExpired(expiresAt: number | null, now: number): boolean {
  return expiresAt !== null && expiresAt <= now
}

/** Of a request without doubt only: each of its attempts, if there was one, surely had no effect. */
export function expired(row: TaskState, evidence: Evidence | null, keepsPlace: boolean): Transition {
  return transition('dead', {
    patch: { ...RELEASED, nextCheckAt: null, doubtfulAttempts: [], reason: 'expired', evidence },
    keepsPlace,
    unfreeze: true,
    event: { kind: 'dead', reason: 'expired', detail: { evidence, expiresAt: row.expiresAt } },
  })
}

export function canceled(evidence: Evidence | null, reason: string): Transition {
  const patch = { ...RELEASED, nextCheckAt: null, doubtfulAttempts: [], olderAnswer: null, reason }
  return transition('canceled', {
    patch: evidence === null ? patch : { ...patch, evidence },
    unfreeze: true,
    event: { kind: 'canceled', reason, detail: { evidence } },
  })
}
