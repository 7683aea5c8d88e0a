// A person's word on an orphan: it is the request's task after all, or it has been dealt with. Ids of orphans are never used
// again, so that the DELETE by id is the fence. Runs inside a transaction.
import { NO_POLICY, type PolicyOf } from '../../core/policy.ts'
import { type SettleContext, settleOn } from '../../core/settlement.ts'
import { isSettled, type TaskState } from '../../core/task-state.ts'
import type { Transition } from '../../core/transition.ts'
import type { ListedOrphan, OperatorWord, OrphanResult, RequestView } from '../views.ts'
import { type OrphanRow, requestView, toOrphan } from './queries.ts'
import type { Statements } from './statements.ts'
import { applyTransition, currentTaskState } from './transitions.ts'

export function adoptOrphan(sql: Statements, orphanId: number, word: OperatorWord, policyOf: PolicyOf): OrphanResult {
  return change(sql, orphanId, word, (orphan) => {
    const row = orphan.request === null ? null : currentTaskState(sql, orphan.requestId, word.now)
    if (row === null) return 'its request was purged, so nobody knows what it was settled on; dismiss it'
    if (row.state === 'invoking') return 'its request is being called; wait until that ends'
    if (row.state === 'canceled') return 'its request was canceled; cancel the task at the API, and dismiss the orphan'
    if (row.state === 'succeeded')
      return 'the task of its request has succeeded, so this is a second effect; deal with it at the API, and dismiss it'
    const context = { now: word.now, policy: policyOf(row.target) ?? NO_POLICY, random: Math.random }
    applyTransition(sql, row, adoption(row, orphan, context, word), word)
    return null
  })
}

/** The task that the request had is the orphan now. */
function adoption(row: TaskState, orphan: ListedOrphan, context: SettleContext, word: OperatorWord): Transition {
  const task = { attempt: orphan.attempt, taskId: orphan.taskId, evidence: orphan.evidence ?? row.evidence ?? BY_WORD }
  const settled = settleOn({ ...row, cancelRequested: false }, task, context, 'adopted')
  const former =
    row.taskId === null || row.taskId === orphan.taskId
      ? settled.orphan
      : { attempt: row.attempt, taskId: row.taskId, evidence: row.evidence }
  const detail = { orphanId: orphan.orphanId, taskId: orphan.taskId, instead: row.taskId, note: word.note }
  return {
    ...settled,
    patch: { ...settled.patch, abandoned: false, endedAt: row.endedAt ?? word.now },
    orphan: former,
    // Its payload left with the first settlement.
    keepPayload: settled.keepPayload && !isSettled(row.state),
    event: { kind: 'orphan_adopted', reason: 'adopted', detail },
  }
}

const BY_WORD = { phase: 'unanswered', rule: 'adopt' } as const

export function dismissOrphan(sql: Statements, orphanId: number, word: OperatorWord): OrphanResult {
  return change(sql, orphanId, word, ({ requestId, target, attempt, taskId, evidence }) => {
    sql.deleteOrphan.run(orphanId)
    const detail = JSON.stringify({ orphanId, taskId, evidence, note: word.note })
    const { now, actor, note } = word
    sql.insertEvent.run(requestId, target, now, 'orphan_dismissed', null, null, attempt, actor, note, detail)
    return null
  })
}

/** @param decide null: done; else why not, one clause for people. */
function change(
  sql: Statements,
  orphanId: number,
  word: OperatorWord,
  decide: (orphan: ListedOrphan) => string | null,
): OrphanResult {
  const stored = sql.orphan.get(orphanId) as OrphanRow | undefined
  if (stored === undefined) {
    const lastId = (sql.lastOrphanId.get() as number | undefined) ?? 0
    return { kind: orphanId <= lastId ? 'unchanged' : 'not_found' }
  }
  const request = requestView(sql, stored.request_id)
  const orphan = { ...toOrphan(stored), request }
  if (word.ifVersion !== null && request?.version !== word.ifVersion) return { kind: 'version_changed', orphan }
  const why = decide(orphan)
  if (why !== null) return { kind: 'refused', orphan, why }
  return { kind: 'applied', orphan: { ...orphan, request: requestView(sql, stored.request_id) } }
}

export function listOrphans(sql: Statements, limit: number): ListedOrphan[] {
  const views = new Map<number, RequestView | null>()
  const viewOf = (requestId: number) => {
    if (!views.has(requestId)) views.set(requestId, requestView(sql, requestId))
    return views.get(requestId) ?? null
  }
  return (sql.orphans.all(limit) as OrphanRow[]).map((row) => ({ ...toOrphan(row), request: viewOf(row.request_id) }))
}
