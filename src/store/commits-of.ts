// What a turn's one commit is of.
import type { Commit } from './store.ts'
import type { TurnInput, TurnResult } from './turn.ts'

export function commitsOf(input: TurnInput, { calls }: TurnResult): Commit[] {
  return [
    ...(input.results.length > 0 ? ['settle' as const] : []),
    ...(input.reconciliations.length > 0 ? ['sweep' as const] : []),
    ...(calls.length > 0 ? ['claim' as const] : []),
  ]
}
