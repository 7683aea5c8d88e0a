// One attempt: read this first. The intent is on disk; here the call is made, once, and its end is put into words.
import { errorText } from '../core/error-text.ts'
import type { Outcome } from '../core/outcome.ts'
import type { AttemptResult } from '../core/settlement.ts'
import type { ClaimedCall } from '../store/turn.ts'
import type { AbortLike, Target } from '../target/target.ts'
import type { HeldLease } from './lease.ts'

export interface AttemptContext {
  readonly target: Target | undefined
  readonly lease: HeldLease
  readonly signal: AbortLike
  readonly wallNow: () => number
  /** The call came to another end after it was given up. */
  readonly onLate: (result: AttemptResult) => void
}

/** Never rejects, never calls twice. */
export async function makeAttempt(call: ClaimedCall, context: AttemptContext): Promise<AttemptResult> {
  return resultOf(call, await invoke(call, context), context)
}

function resultOf(call: ClaimedCall, outcome: Outcome, { wallNow }: AttemptContext): AttemptResult {
  const { requestId, target, attempt, nonce, key } = call
  return { requestId, target, attempt, nonce, idempotencyKey: key, outcome, endedAt: wallNow() }
}

async function invoke(call: ClaimedCall, context: AttemptContext): Promise<Outcome> {
  const { target, lease, signal, onLate } = context
  if (target === undefined) return notStarted('description_missing')
  const { requestId, logicalHash, generation, priority } = call
  try {
    return await target.invoke(call.prepared, {
      input: { payload: call.payload, key: call.key, request: { requestId, logicalHash, generation, priority } },
      gate: (neededMs) => lease.refuseWrite(neededMs),
      onWritten: () => lease.written(),
      onLate: (outcome) => onLate(resultOf(call, outcome, context)),
      signal,
    })
  } catch (error) {
    // A target that throws has broken its word: what it did is anybody's guess.
    const note = `the target threw: ${errorText(error)}`
    return {
      kind: 'unknown',
      executed: false,
      retryAfterMs: null,
      evidence: { phase: 'unanswered', error: note, rule: 'target' },
    }
  }
}

function notStarted(error: string): Outcome {
  const evidence = { phase: 'not_sent', error, rule: 'target' } as const
  return { kind: 'not_executed', refund: true, written: false, retryAfterMs: null, evidence }
}
