// Which words of a person fit a request in doubt: the store refuses the others, and people are shown these.
import type { TaskState } from './task-state.ts'

/** What a person can say of a request in doubt. */
export const RESOLUTION_KINDS = ['task_id', 'not_executed', 'retry_accepting_duplicates', 'abandon'] as const
export type ResolutionKind = (typeof RESOLUTION_KINDS)[number]

/** What tells which words fit. */
export type Doubted = Pick<TaskState, 'state' | 'taskId' | 'executed' | 'reason'> & { readonly olderAnswer: unknown }

/** Under these the same key would only meet the same refusal. */
const KEY_IS_TAKEN = ['mismatch', 'exists_not_ours']

export function fittingResolutions(row: Doubted): readonly ResolutionKind[] {
  if (row.state !== 'held' && row.state !== 'unknown') return []
  const mayBeAbsent = !isKnownToHaveHappened(row) && !KEY_IS_TAKEN.includes(row.reason ?? '')
  return ['task_id', ...(mayBeAbsent ? ['not_executed' as const] : []), 'retry_accepting_duplicates', 'abandon']
}

/** An answer showed it, or named the task: "it did not happen" would be wrong. */
export function isKnownToHaveHappened({ taskId, executed, olderAnswer }: Omit<Doubted, 'state' | 'reason'>): boolean {
  return taskId !== null || executed || olderAnswer !== null
}
