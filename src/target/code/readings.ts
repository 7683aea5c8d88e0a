// What the user's code returned or threw, as outcomes. Whatever is not one of the words that we gave it proves nothing.
import type { GivenTaskId, LookupAnswer, StatusAnswer, SubmitResult } from '../../config/code-target.ts'
import type { CareDefinition } from '../../config/target-definition.ts'
import { errorText } from '../../core/error-text.ts'
import { type ErrorCode, isOnceishError } from '../../core/errors.ts'
import type { CallPhase, Evidence, LookupResult, Outcome, TaskStatus } from '../../core/outcome.ts'
import { LONGEST_TOLD_WAIT_MS } from '../../core/retry-after.ts'
import type { InFlightError, NotExecutedError } from '../../core/submission-errors.ts'
import type { Redactor } from '../redact.ts'
import { shortText } from '../stored-text.ts'
import { taskIdText } from '../task-id.ts'

export type Readings = ReturnType<typeof createReadings>

interface Given {
  /** False: a call that returns is accepted without an id. */
  readonly givesTaskId: boolean
  readonly care: Pick<CareDefinition, 'idempotency'>
}

export function createReadings(redactor: Redactor, { givesTaskId, care }: Given) {
  const isClientId = care.idempotency?.clientId === true
  const evidenceOf = (phase: CallPhase, words: { rule?: string; error?: unknown; note?: string }): Evidence => ({
    phase,
    ...('error' in words ? { error: shortText(errorText(words.error), redactor) } : {}),
    ...(words.rule === undefined ? {} : { rule: words.rule }),
    ...(words.note === undefined ? {} : { note: shortText(words.note, redactor) }),
  })
  const evidence = (error: unknown) => evidenceOf('unanswered', { error })
  const idOf = (value: unknown) => taskIdText(value, redactor)

  function withoutId(note: string): Outcome {
    return { kind: 'accepted_without_id', evidence: evidenceOf('answered', { rule: 'returned', note }) }
  }

  /** It has returned, so it has executed, whatever cannot be read of what it returned. */
  function returned(value: unknown, key: string | null): Outcome {
    try {
      return readReturned(value, key)
    } catch (error) {
      return withoutId(`what invoke returned cannot be read: ${errorText(error)}`)
    }
  }

  /** @param key of the call: where it is the resource's own id, it stands for an id that was not returned. */
  function readReturned(value: unknown, key: string | null): Outcome {
    const answered = evidenceOf('answered', { rule: 'returned' })
    const given = (value as Partial<{ taskId: GivenTaskId }> | null | undefined)?.taskId
    const taskId = idOf(given) ?? (isClientId && (given === undefined || given === null) ? key : null)
    if (isExists(value) && (value.ours !== true || taskId !== null || givesTaskId)) {
      return { kind: 'exists', ours: value.ours === true, taskId, evidence: answered }
    }
    if (!givesTaskId) return { kind: 'accepted', taskId: null, evidence: answered }
    if (taskId !== null) return { kind: 'accepted', taskId, evidence: answered }
    return withoutId(
      given === undefined ? 'invoke returned no { taskId }' : `invoke returned a taskId that is none: ${kindOf(given)}`,
    )
  }

  function thrown(error: unknown): Outcome {
    try {
      return readThrown(error)
    } catch {
      return unanswered('an error that cannot be read')
    }
  }

  /** From any copy of this package, told by its code. */
  function readThrown(error: unknown): Outcome {
    const answered = evidenceOf('answered', { rule: 'thrown', error })
    const code = isOnceishError(error) ? error.code : null
    const plain = code === null ? undefined : PLAIN_PROOFS[code]
    if (plain !== undefined) return { kind: plain, evidence: answered }
    switch (code) {
      case 'SUBMISSION_NOT_EXECUTED': {
        const { limited, retryAfterMs } = error as NotExecutedError
        const sent = (error as NotExecutedError).sent !== false
        const proof = sent ? answered : evidenceOf('not_sent', { rule: 'thrown', error })
        const refund = !sent || limited
        const told = waitOf(retryAfterMs)
        const by = limited && told !== null ? { limitedBy: `retryAfterMs: ${told}` } : {}
        return { kind: 'not_executed', refund, written: sent, retryAfterMs: told, ...by, evidence: proof }
      }
      case 'SUBMISSION_IN_FLIGHT': {
        const { retryAfterMs } = error as InFlightError
        return { kind: 'in_flight', retryAfterMs: waitOf(retryAfterMs), evidence: answered }
      }
      default:
        return unanswered(error)
    }
  }

  function unanswered(error: unknown): Outcome & { kind: 'unknown' } {
    const proof = evidenceOf('unanswered', { rule: 'thrown', error })
    return { kind: 'unknown', executed: false, retryAfterMs: null, evidence: proof }
  }

  function lookedUp(value: LookupAnswer): LookupResult {
    const answered = evidenceOf('answered', { rule: 'lookup' })
    switch (value?.kind) {
      case 'found': {
        const taskId = idOf(value.taskId)
        return taskId === null
          ? undetermined('lookup returned a taskId that is none')
          : { kind: 'found', taskId, evidence: answered }
      }
      case 'absent':
        return { kind: 'miss', evidence: answered }
      case 'ambiguous':
        return {
          kind: 'ambiguous',
          taskIds: [value.taskIds].flat().flatMap((id) => idOf(id) ?? []),
          evidence: answered,
        }
      case 'undetermined':
        return { ...undetermined(value.note ?? 'undetermined'), retryAfterMs: waitOf(value.retryAfterMs) }
      default:
        return undetermined('lookup returned none of its answers')
    }
  }

  function undetermined(error: unknown) {
    return { kind: 'undetermined', retryAfterMs: null as number | null, evidence: evidence(error) } as const
  }

  function statusOf(value: StatusAnswer): TaskStatus {
    const answered = evidenceOf('answered', { rule: 'status', note: errorText(value) })
    return { kind: KNOWN_STATES.has(value) ? value : 'unlisted', evidence: answered }
  }

  function unsent(reason: string): Outcome {
    const proof = evidenceOf('not_sent', { rule: 'lease', error: reason })
    return { kind: 'not_executed', refund: true, written: false, retryAfterMs: null, evidence: proof }
  }

  return { returned, thrown, unanswered, unsent, lookedUp, undetermined, statusOf, evidence }
}

/** Thrown words that carry nothing but what they prove. */
const PLAIN_PROOFS: Partial<Record<ErrorCode, 'rejected' | 'blocked' | 'mismatch' | 'accepted_without_id'>> = {
  SUBMISSION_REJECTED: 'rejected',
  SUBMISSION_BLOCKED: 'blocked',
  SUBMISSION_MISMATCH: 'mismatch',
  SUBMISSION_ACCEPTED_WITHOUT_ID: 'accepted_without_id',
}

const KNOWN_STATES: ReadonlySet<unknown> = new Set<StatusAnswer>(['pending', 'succeeded', 'failed', 'gone'])

function isExists(value: unknown): value is Extract<SubmitResult, { kind: 'exists' }> {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'exists'
}

function waitOf(ms: number | null | undefined): number | null {
  return typeof ms === 'number' && ms >= 0 && ms <= LONGEST_TOLD_WAIT_MS ? Math.ceil(ms) : null
}

function kindOf(value: unknown): string {
  return typeof value === 'string' ? `${value.length} characters` : `a ${typeof value}`
}
