// What the state of a submitted task does to its row. Pure. Nothing here ever leads to a submit: a task that the API has
// lost is `lost`, and what follows is a person's to say.
import { spreadMs } from './backoff.ts'
import type { TaskStatus } from './outcome.ts'
import type { SettleContext } from './settlement.ts'
import type { TaskState } from './task-state.ts'
import { RELEASED, type Transition, transition } from './transition.ts'
import { isPastDeadline } from './windows.ts'

export interface Tracking {
  readonly requestId: number
  readonly target: string
  /** The row's version as it was asked about: the fence. */
  readonly version: number
  readonly status: TaskStatus
}

/** An id answered with "not found" once may only be late in a replica. */
const GONE_BEFORE_LOST = 3

export function decideTracking(row: TaskState, status: TaskStatus, context: SettleContext): Transition {
  switch (status.kind) {
    case 'succeeded':
    case 'failed':
      return end(row, status.kind, null, status)
    case 'pending':
      return askAgain(row, context, { misses: 0, unknownSince: null, reason: null })
    case 'gone':
      return row.misses + 1 >= GONE_BEFORE_LOST
        ? end(row, 'lost', 'not_found_at_api', status)
        : askAgain(row, context, { misses: row.misses + 1, reason: 'not_found_at_api' })
    case 'unlisted':
      return unclear(row, status, context, 'unlisted_state')
    case 'undetermined':
      return unclear(row, status, context, 'status_undetermined')
  }
}

function end(
  row: TaskState,
  to: 'succeeded' | 'failed' | 'lost' | 'expired',
  reason: string | null,
  status: TaskStatus,
): Transition {
  return transition(to, {
    patch: { ...RELEASED, nextCheckAt: null, unknownSince: null, reason },
    event: { kind: to, reason, detail: { taskId: row.taskId, evidence: status.evidence } },
  })
}

/** Kept open and told once; never failed, and no longer asked after the deadline. */
function unclear(row: TaskState, status: TaskStatus, context: SettleContext, reason: string): Transition {
  const since = row.unknownSince ?? context.now
  if (isPastDeadline(row, context.policy, context.now)) return end(row, 'expired', reason, status)
  const told = status.kind === 'undetermined' ? status.retryAfterMs : null
  return {
    ...askAgain(row, context, { unknownSince: since, reason }, told),
    event: row.reason === reason ? null : { kind: 'status_unclear', reason, detail: { evidence: status.evidence } },
  }
}

function askAgain(
  row: TaskState,
  context: SettleContext,
  patch: Transition['patch'],
  toldMs: number | null = null,
): Transition {
  const everyMs = context.policy.tracking?.everyMs ?? context.policy.deadlineMs
  const waitMs = Math.max(everyMs, toldMs === null ? 0 : spreadMs(toldMs, context.random()))
  return transition(row.state, { patch: { ...RELEASED, ...patch, nextCheckAt: context.now + waitMs } })
}
