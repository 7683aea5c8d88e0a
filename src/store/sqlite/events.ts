// Lines of the time line, written in the transaction of what they tell.

import type { TaskState } from '../../core/task-state.ts'
import type { EventDraft } from '../../core/transition.ts'
import type { Statements } from './statements.ts'

/** Whose change it is, and when. */
export interface Word {
  readonly now: number
  readonly actor: string
}

export function noteEvent(
  sql: Statements,
  row: TaskState,
  to: TaskState['state'],
  event: EventDraft,
  { now, actor }: Word,
): void {
  const { requestId, target, state, attempt } = row
  const { kind, reason } = event
  sql.insertEvent.run(requestId, target, now, kind, state, to, attempt, actor, reason, detailOf(event))
}

/** Of no request. @param target null: of the whole store. */
export function noteTargetEvent(sql: Statements, target: string | null, event: EventDraft, { now, actor }: Word): void {
  const { kind, reason } = event
  sql.insertEvent.run(null, target, now, kind, null, null, null, actor, reason, detailOf(event))
}

function detailOf({ detail }: EventDraft): string | null {
  return detail === undefined ? null : JSON.stringify(detail)
}
