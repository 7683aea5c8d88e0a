// What is queued past its deadline ends, of whichever target, paused or served by nobody: each worker's turn sees to a bounded number,
// and the claim refuses those that come after the bound. Only what is queued stands in the table: doubt never expires.
import { expired } from '../../core/transition.ts'
import { DEADLINES_A_TURN } from '../bounds.ts'
import type { SettledRow } from '../turn.ts'
import { endUncalled } from './claim.ts'
import type { QueueFacts } from './queries.ts'
import type { Turn } from './turn-context.ts'

export interface Overdue {
  readonly ended: readonly SettledRow[]
  /** There may be more of them. */
  readonly isMore: boolean
}

const NONE: Overdue = { ended: [], isMore: false }

export function endOverdue(turn: Turn, { nextExpiryAt }: QueueFacts): Overdue {
  const { sql, word } = turn
  if (nextExpiryAt === null || nextExpiryAt > word.now) return NONE
  const over = sql.expiredRequests.all(word.now, DEADLINES_A_TURN) as number[]
  const keepsPlace = (target: string) => turn.input.policyOf(target)?.onDead !== 'continue'
  const ended = over.map((id) => endUncalled(turn, id, (row) => expired(row, row.evidence, keepsPlace(row.target))))
  return { ended, isMore: over.length === DEADLINES_A_TURN }
}
