// What one attempt proved. The words are README's; each attempt ends in exactly one of them.

/** How far the bytes of a call got (README, "What a failed call proves"). */
export type CallPhase = 'not_sent' | 'unanswered' | 'cut' | 'answered'

/** Bounded and redacted: safe to store and to show. */
export interface Evidence {
  readonly phase: CallPhase
  readonly status?: number
  /** Only a short list of headers, lower-case names. */
  readonly headers?: Readonly<Record<string, string>>
  /** At most `EVIDENCE_BODY_BYTES` of the answer. */
  readonly body?: string
  /** Code and message of a transport error. */
  readonly error?: string
  /** Which rule spoke: `outcomes[2]`, `default`, `transport`, `lease`, ... */
  readonly rule?: string
  readonly note?: string
}

/** What one attempt proved. */
export type Outcome =
  | { readonly kind: 'accepted'; readonly taskId: string | null; readonly evidence: Evidence }
  /** The API says it has this already. `ours`: it was compared with our key. `taskId` null: not readable, so the ladder decides. */
  | { readonly kind: 'exists'; readonly ours: boolean; readonly taskId: string | null; readonly evidence: Evidence }
  | { readonly kind: 'accepted_without_id'; readonly evidence: Evidence }
  | { readonly kind: 'in_flight'; readonly retryAfterMs: number | null; readonly evidence: Evidence }
  /**
   * Surely no effect; may be retried. `refund`: the retry budget is given back (never written, or limited by the API).
   * `written`: bytes left under this attempt's key, which an API that stores failures has burned.
   */
  | {
      readonly kind: 'not_executed'
      readonly refund: boolean
      readonly written: boolean
      readonly retryAfterMs: number | null
      /** The API's limit refused it and told how long to wait, in this header and value: that is for all calls of the target. */
      readonly limitedBy?: string
      readonly evidence: Evidence
    }
  | { readonly kind: 'rejected'; readonly evidence: Evidence }
  | { readonly kind: 'mismatch'; readonly evidence: Evidence }
  | { readonly kind: 'blocked'; readonly evidence: Evidence }
  /**
   * `executed`: the answer shows that it happened (a cut 2xx), so a miss never permits a call. `isRunning`: the call was given
   * up and could not be ended, so nobody saw its end.
   */
  | {
      readonly kind: 'unknown'
      readonly executed: boolean
      readonly isRunning?: boolean
      readonly retryAfterMs: number | null
      readonly evidence: Evidence
    }

/** What an attempt can prove, by name. */
export type OutcomeKind = Outcome['kind']

export const OUTCOME_KINDS = [
  'accepted',
  'exists',
  'accepted_without_id',
  'in_flight',
  'not_executed',
  'rejected',
  'mismatch',
  'blocked',
  'unknown',
] as const satisfies readonly OutcomeKind[]

/** What a lookup proved. Several distinct tasks are `ambiguous`: a person decides. */
export type LookupResult =
  | { readonly kind: 'found'; readonly taskId: string; readonly evidence: Evidence }
  /** The listing was healthy and complete and does not show it. Whether that counts is core/windows.ts's. */
  | { readonly kind: 'miss'; readonly evidence: Evidence }
  | { readonly kind: 'undetermined'; readonly retryAfterMs: number | null; readonly evidence: Evidence }
  | { readonly kind: 'ambiguous'; readonly taskIds: readonly string[]; readonly evidence: Evidence }

/** What asking for a submitted task's state showed. */
export type TaskStatus =
  | { readonly kind: 'pending' | 'succeeded' | 'failed'; readonly evidence: Evidence }
  /** A state that the description does not name: the task is still open. */
  | { readonly kind: 'unlisted'; readonly evidence: Evidence }
  /** The API no longer knows the id. */
  | { readonly kind: 'gone'; readonly evidence: Evidence }
  | { readonly kind: 'undetermined'; readonly retryAfterMs: number | null; readonly evidence: Evidence }

/** What cancelling a task at the API proved. */
export type CancelResult =
  | { readonly kind: 'canceled'; readonly evidence: Evidence }
  | { readonly kind: 'failed'; readonly evidence: Evidence }
