// What a target in code throws to say what its call proved. Everything else that it throws is `unknown`: a failed call proves
// nothing by itself.
import { OnceishError } from './errors.ts'

/** What an API told to wait. */
export interface Waits {
  /** The API told to wait this long; positive jitter is added, never less is waited. */
  readonly retryAfterMs?: number
  readonly cause?: unknown
}

/** Surely no effect, and it may be tried again: the API said so, or nothing was sent. */
export class NotExecutedError extends OnceishError {
  readonly retryAfterMs: number | null
  /** False: nothing left under this attempt's key. */
  readonly sent: boolean
  /** The API refused it for going too fast. */
  readonly limited: boolean

  /** `sent` is true by default, `limited` false: a call that was not sent, or limited, burns no attempt. */
  constructor(message: string, options: Waits & { readonly sent?: boolean; readonly limited?: boolean } = {}) {
    super('SUBMISSION_NOT_EXECUTED', message, options)
    this.name = 'NotExecutedError'
    this.retryAfterMs = options.retryAfterMs ?? null
    this.sent = options.sent ?? true
    this.limited = options.limited ?? false
  }
}

/** Surely no effect, and the same request will never do: it is dead. */
export class RejectedError extends OnceishError {
  /** `message`: what the API said; stored as evidence, the target's `secrets` redacted. */
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('SUBMISSION_REJECTED', message, options)
    this.name = 'RejectedError'
  }
}

/** Surely no effect, and no other request of this target will do either (credentials): the target is paused. */
export class BlockedError extends OnceishError {
  /** `message`: what the API said; stored as evidence, the target's `secrets` redacted. */
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('SUBMISSION_BLOCKED', message, options)
    this.name = 'BlockedError'
  }
}

/** The API is still working on our key: it is asked again under the same key. */
export class InFlightError extends OnceishError {
  readonly retryAfterMs: number | null

  /** `message`: what the API said; stored as evidence, the target's `secrets` redacted. */
  constructor(message: string, options: Waits = {}) {
    super('SUBMISSION_IN_FLIGHT', message, options)
    this.name = 'InFlightError'
    this.retryAfterMs = options.retryAfterMs ?? null
  }
}

/** The key was used with another payload: held for a person. */
export class MismatchError extends OnceishError {
  /** `message`: what the API said; stored as evidence, the target's `secrets` redacted. */
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('SUBMISSION_MISMATCH', message, options)
    this.name = 'MismatchError'
  }
}

/** It happened, and no id could be read: it is looked up or replayed, and a miss never permits a second call. */
export class AcceptedWithoutIdError extends OnceishError {
  /** `message`: what the API said; stored as evidence, the target's `secrets` redacted. */
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('SUBMISSION_ACCEPTED_WITHOUT_ID', message, options)
    this.name = 'AcceptedWithoutIdError'
  }
}
