// What every step of one turn is handed.
import type { Breaker } from '../../core/breaker.ts'
import type { StopNews, TurnInput } from '../turn.ts'
import type { Word } from './events.ts'
import type { Rankings } from './rankings.ts'
import type { Statements } from './statements.ts'

export interface Turn {
  readonly sql: Statements
  readonly input: TurnInput
  readonly word: Word
  /** As `task_state.lease_owner` has it. */
  readonly owner: string
  readonly highWaterAt: number
  /** Steady time in this transaction. */
  readonly steadyAt: number
  readonly rankings: Rankings
  /** By target, where one has something to tell; kept in step with the store. */
  readonly breakers: Map<string, Breaker>
  /** Filled as answers are settled. */
  readonly stops: StopNews[]
}

export function ownerOf(worker: { name: string; boot: string }): string {
  return `${worker.name}:${worker.boot}`
}

/** The frozen description of that version, as it was when it was used. */
export function descriptionOf(sql: Statements, target: string, version: string | null): string | null {
  return (sql.description.get(target, version) as string | undefined) ?? null
}
