// What was promised (README, "What is promised"), asked of the truth: at every commit, and at the end.
import type { RequestDetail } from '../../src/store/views.ts'
import type { ApiModel } from './api-model.ts'
import type { Owed } from './owed.ts'
import type { Standing } from './store-watch.ts'
import { callsAWord, tellsRepeats } from './targets.ts'

const SETTLED: readonly string[] = ['submitted', 'succeeded', 'failed', 'expired', 'lost']

/** Of a request that says of itself that nothing of it is in doubt; null: it is right. */
export function falseCertainty({ state }: Standing, one: Owed, api: ApiModel): string | null {
  // A person's word wrote off what went before it.
  if (one.accepted > 0 || one.isRebuilt) return null
  const isThere = api.effects.some(({ of, isCanceled }) => of === one.name && !(isCanceled && state === 'canceled'))
  if (isThere) return `${one.name} is ${state}, and it happened`
  return api.mayLand(one.name) ? `${one.name} is ${state}, and may still happen` : null
}

/** Of all that must hold at the end. */
export function violationsOf(
  rows: readonly { readonly one: Owed; readonly row: RequestDetail | null }[],
  api: ApiModel,
): string[] {
  const found = rows.flatMap(({ one, row }) => [
    ...truthViolations(one, api),
    ...(one.isGone ? [] : row === null ? [`${one.name} is lost`] : rowViolations(one, row, api)),
  ])
  return [...found, ...api.mismatches.map((what) => `other bytes under a key: ${what}`)]
}

function truthViolations(one: Owed, api: ApiModel): string[] {
  const found: string[] = []
  const effects = api.effects.filter(({ of }) => of === one.name).length
  const allowed = 1 + one.accepted
  if (effects > allowed) found.push(`${one.name} (${one.kind}) happened ${effects} times, allowed ${allowed}`)
  const budget = callsAWord(one.kind) * one.words
  if (one.calls > budget) found.push(`${one.name} (${one.kind}) was called ${one.calls} times, allowed ${budget}`)
  return found
}

function rowViolations(one: Owed, row: RequestDetail, api: ApiModel): string[] {
  const found: string[] = []
  const isIts = (taskId: string | null) => api.effects.some(({ of, id }) => of === one.name && id === taskId)
  if (SETTLED.includes(row.state) && !isIts(row.taskId)) {
    found.push(`${one.name} is ${row.state} as ${row.taskId}, which is none of its effects`)
  }
  const isOver = row.state === 'held' || row.state === 'dead' || row.state === 'canceled'
  // Behind a request that waits for a person it is never called.
  if (one.isPoison && !isOver && row.behind === null && !isIts(row.taskId)) {
    found.push(`${one.name} kills every caller and is ${row.state}`)
  }
  if (row.orphans.some(({ taskId }) => taskId === row.taskId)) found.push(`${one.name} has its own task as an orphan`)
  if (row.state === 'held' && isAnswered(one, row)) found.push(`${one.name} is held, and its answer was recorded`)
  return found
}

/** An answer that names the task was committed: of the newest attempt, or of an older one that the same key makes the same. */
function isAnswered(one: Owed, { taskState }: RequestDetail): boolean {
  if (taskState === null || taskState.cancelRequested) return false
  return one.answers.some(({ attempt, nonce, idempotencyKey, outcome }) => {
    if (outcome.kind !== 'accepted' && outcome.kind !== 'exists') return false
    const isNewest = attempt === taskState.attempt && nonce === taskState.nonce
    return isNewest || (tellsRepeats(one.kind) && idempotencyKey === taskState.idempotencyKey)
  })
}
