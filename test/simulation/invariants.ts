// What was promised (README, "What is promised"), asked of the truth.
import type { RequestDetail } from '../../src/store/views.ts'
import type { ApiModel } from './api-model.ts'
import type { Owed } from './world.ts'

const SETTLED: readonly string[] = ['submitted', 'succeeded', 'failed', 'expired', 'lost']

export function violationsOf(
  rows: readonly { readonly one: Owed; readonly row: RequestDetail | null }[],
  api: ApiModel,
): string[] {
  const found = rows.flatMap(({ one, row }) =>
    row === null ? [`${one.name} is lost`] : requestViolations(one, row, api),
  )
  return [...found, ...api.mismatches.map((what) => `other bytes under a key: ${what}`)]
}

function requestViolations(one: Owed, row: RequestDetail, api: ApiModel): string[] {
  const effects = api.effects.filter(({ of }) => of === one.name)
  const found: string[] = []
  const allowed = 1 + one.accepted
  if (effects.length > allowed)
    found.push(`${one.name} (${one.kind}) happened ${effects.length} times, allowed ${allowed}`)
  if (SETTLED.includes(row.state) && !effects.some(({ id }) => id === row.taskId)) {
    found.push(`${one.name} is ${row.state} as ${row.taskId}, which is none of its effects`)
  }
  // A person's word wrote off what went before it.
  const isWrittenOff = one.accepted > 0
  if (row.state === 'dead' && !isWrittenOff && effects.length > 0 && row.orphans.length === 0 && !isKnownLate(row)) {
    found.push(`${one.name} is dead, and it happened`)
  }
  if (
    row.state === 'canceled' &&
    !isWrittenOff &&
    effects.some(({ isCanceled }) => !isCanceled) &&
    row.orphans.length === 0 &&
    !isKnownLate(row)
  ) {
    found.push(`${one.name} is canceled, and it happened`)
  }
  return found
}

/** An end that was right when it was made, and an answer that came after it, kept as an event. */
function isKnownLate(row: RequestDetail): boolean {
  return row.events.some(({ kind }) => kind === 'late_answer')
}
