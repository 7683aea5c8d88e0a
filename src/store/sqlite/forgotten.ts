// Puts in doubt what a store that was put back from a copy may have called since. A few rows a transaction; run again, it puts
// the rest in doubt.
import { invariant } from '../../core/errors.ts'
import { forgottenCall, mayBeForgotten } from '../../core/forgotten-call.ts'
import type { TaskState } from '../../core/task-state.ts'
import { DOUBTED_A_SLICE } from '../bounds.ts'
import type { DoubtOrder, ForgottenSlice } from '../upkeep.ts'
import { newNonce } from './nonce.ts'
import { freeze } from './rows.ts'
import type { Statements } from './statements.ts'
import { applyTransition, currentTaskState, type RequestRow, toClaimable } from './transitions.ts'

export function doubtSlice(sql: Statements, afterId: number, order: DoubtOrder): ForgottenSlice {
  const requests = sql.owedAfter.all(afterId, DOUBTED_A_SLICE) as RequestRow[]
  const doubted: Record<string, number> = {}
  let kept = 0
  for (const request of requests) {
    const row = currentTaskState(sql, request.request_id, order.now)
    invariant(row !== null, `request ${request.request_id} is owed and not there`)
    if (!mayBeForgotten(row, request.due_at, order)) {
      if (row.state === 'queued') kept++
      continue
    }
    doubted[row.target] = (doubted[row.target] ?? 0) + 1
    if (!order.dryRun) doubtOne(sql, row, request, order)
  }
  const lastId = requests.at(-1)?.request_id ?? afterId
  return { doubted, kept, lastId, done: requests.length < DOUBTED_A_SLICE }
}

function doubtOne(sql: Statements, row: TaskState, request: RequestRow, order: DoubtOrder): void {
  const hasBytes = typeof sql.frozen.get(request.request_id) === 'string'
  const preparation = hasBytes ? null : order.prepare(toClaimable(request))
  const isRendered = preparation?.kind === 'prepared'
  const bytes = isRendered ? { targetVersion: preparation.targetVersion, idempotencyKey: preparation.key } : null
  applyTransition(sql, row, forgottenCall(row, order, bytes, newNonce()), order)
  if (isRendered) sql.setFrozen.run(freeze(preparation.call, request.payload), row.requestId)
}
