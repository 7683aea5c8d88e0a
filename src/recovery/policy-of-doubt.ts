// By what a row in doubt is judged: the description that its call was made with, and the stricter of its times and the present ones.
import { stricterPolicy, type TargetPolicy } from '../core/policy.ts'
import type { TaskState } from '../core/task-state.ts'
import { doubtEndsAt, windowClosesAt } from '../core/windows.ts'
import type { Investigation } from '../store/turn.ts'
import type { TargetRegistry } from '../target/target.ts'

/** Null where the description, or the code, that made the call is not loaded. */
export function policyOfDoubt(
  registry: TargetRegistry,
  { row, description }: Pick<Investigation, 'row' | 'description'>,
): TargetPolicy | null {
  const frozen = registry.at(row.target, row.targetVersion, description)?.policy
  const present = registry.get(row.target)?.policy
  return frozen === undefined ? null : stricterPolicy(frozen, present ?? frozen)
}

/** Until when it can be replayed, and when it is held, as far as a policy says. */
export function timesOfDoubt(
  row: TaskState,
  policy: TargetPolicy | null,
): { readonly windowClosesAt: number | null; readonly deadlineAt: number | null } {
  if (policy === null) return { windowClosesAt: null, deadlineAt: null }
  return {
    windowClosesAt: policy.recovery.includes('replay') ? windowClosesAt(row, policy) : null,
    deadlineAt: row.unknownSince === null ? null : doubtEndsAt(row, policy, row.unknownSince),
  }
}
