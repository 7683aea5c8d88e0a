// A store that was put back from a copy has forgotten what was called since. What it owes is in doubt, as after a call that
// nobody recorded: made at the earliest right after the copy, ended at the latest just now.

import type { TaskState } from './task-state.ts'
import { RELEASED, type Transition, transition } from './transition.ts'

/** Instants are UTC epoch ms. */
export interface ForgottenTime {
  readonly now: number
  /** Calls until then are on record. */
  readonly knownUntil: number
  /** Calls were made until then; null: nobody knows. */
  readonly calledUntil: number | null
}

/** What the next attempt would have sent; a row in doubt has its own. */
export interface ForgottenBytes {
  readonly targetVersion: string
  readonly idempotencyKey: string | null
}

/** Whether it may have been called since the copy. What came due, or was enqueued, after the last claim was not claimed. */
export function mayBeForgotten(row: TaskState, dueAt: number, { calledUntil }: ForgottenTime): boolean {
  if (row.state === 'dead' || row.state === 'canceled') return false
  return row.state !== 'queued' || calledUntil === null || dueAt <= calledUntil
}

/** @param bytes null: the row's own, or none that could be rendered. @param nonce of the attempt that stands for what was forgotten. */
export function forgottenCall(
  row: TaskState,
  time: ForgottenTime,
  bytes: ForgottenBytes | null,
  nonce: string,
): Transition {
  const attempt = row.attempt + 1
  return transition('unknown', {
    patch: {
      ...RELEASED,
      ...bytes,
      attempt,
      nonce,
      doubtfulAttempts: [...row.doubtfulAttempts, attempt],
      startedAt: Math.min(row.startedAt ?? time.knownUntil, time.knownUntil),
      endedAt: time.now,
      isEndObserved: false,
      unknownSince: time.now,
      nextCheckAt: time.now,
      backoffStep: 0,
      misses: 0,
      lastMissAt: null,
      reason: 'restored',
    },
    event: { kind: 'unknown', reason: 'restored', detail: { knownUntil: time.knownUntil } },
  })
}
