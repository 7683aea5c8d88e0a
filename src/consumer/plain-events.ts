// What was submitted so plainly that no event is written of it, as the event that watchers are told.
import type { AttemptResult } from '../core/settlement.ts'
import type { SettledRow } from '../store/turn.ts'
import type { RequestEvent } from '../store/views.ts'

/** A turn settles its answers in their order. */
export function plainEvents(
  results: readonly AttemptResult[],
  settled: readonly SettledRow[],
  actor: string,
): RequestEvent[] {
  return results.flatMap(({ requestId, target, attempt, outcome, endedAt: at }, i): RequestEvent[] => {
    if (settled[i]?.isPlain !== true || outcome.kind !== 'accepted') return []
    const moved = { kind: 'submitted', from: 'invoking', to: 'submitted', reason: 'answer' }
    return [{ eventId: null, requestId, target, at, ...moved, attempt, actor, detail: { taskId: outcome.taskId } }]
  })
}
