// Every error a caller can meet, by stable code. Expected endings (duplicate, fenced) are return values, not errors.
const BRAND = Symbol.for('onceish.error')

/** Stable codes. `exit` is the exit code of the command line (README, "Exit codes"): 1 failed, 2 usage or config. */
export const ERROR_CODES = {
  USAGE: { exit: 2 },
  CONFIG_NOT_FOUND: { exit: 2 },
  CONFIG_UNREADABLE: { exit: 2 },
  CONFIG_INVALID: { exit: 2 },
  ENV_MISSING: { exit: 2 },
  TARGET_UNKNOWN: { exit: 1 },
  REQUEST_INVALID: { exit: 1 },
  PAYLOAD_INVALID: { exit: 1 },
  PAYLOAD_NOT_CANONICAL: { exit: 1 },
  PAYLOAD_TOO_LARGE: { exit: 1 },
  LINE_INVALID: { exit: 1 },
  FILE_UNREADABLE: { exit: 1 },
  FILE_EXISTS: { exit: 1 },
  FILE_UNWRITABLE: { exit: 1 },
  BACKUP_UNVERIFIED: { exit: 1 },
  LOGICAL_HASH_CONFLICT: { exit: 1 },
  REQUEST_NOT_FOUND: { exit: 1 },
  ORPHAN_NOT_FOUND: { exit: 1 },
  STATE_REFUSED: { exit: 1 },
  VERSION_CHANGED: { exit: 1 },
  STORE_NOT_FOUND: { exit: 1 },
  STORE_UNWRITABLE: { exit: 1 },
  STORE_NOT_A_DATABASE: { exit: 1 },
  STORE_CORRUPT: { exit: 1 },
  STORE_SCHEMA_NEWER: { exit: 1 },
  STORE_SCHEMA_OLDER: { exit: 1 },
  STORE_JOURNAL_MODE: { exit: 1 },
  STORE_BUSY: { exit: 1 },
  STORE_UNREACHABLE: { exit: 1 },
  STORE_FULL: { exit: 1 },
  STORE_IO_FAILED: { exit: 1 },
  STORE_SYNC_FAILED: { exit: 1 },
  STORE_UNSUPPORTED: { exit: 1 },
  STORE_CLOSED: { exit: 1 },
  STORE_RESTORED: { exit: 1 },
  STORE_MOVED: { exit: 1 },
  STORE_NOT_RESTORED: { exit: 1 },
  STORE_IN_USE: { exit: 1 },
  STORE_COPIED: { exit: 1 },
  STORE_COPYING: { exit: 1 },
  COPY_REFUSED: { exit: 1 },
  COPY_UNVERIFIED: { exit: 1 },
  CONNECTION_UNFIT: { exit: 1 },
  WAIT_TIMEOUT: { exit: 1 },
  RENDER_FAILED: { exit: 1 },
  SUBMISSION_NOT_EXECUTED: { exit: 1 },
  SUBMISSION_REJECTED: { exit: 1 },
  SUBMISSION_BLOCKED: { exit: 1 },
  SUBMISSION_IN_FLIGHT: { exit: 1 },
  SUBMISSION_MISMATCH: { exit: 1 },
  SUBMISSION_ACCEPTED_WITHOUT_ID: { exit: 1 },
  SIMULATED_CRASH: { exit: 1 },
  INVARIANT_BROKEN: { exit: 1 },
} as const satisfies Record<string, { exit: 1 | 2 }>

/** One of the stable codes. */
export type ErrorCode = keyof typeof ERROR_CODES

/**
 * What is thrown for bad input, a broken environment and broken invariants. Expected endings are return values instead.
 * Tell it by `isOnceishError` and its `code`: another copy of this package fails `instanceof`, and messages may change.
 */
export class OnceishError extends Error {
  readonly code: ErrorCode
  /** What the message speaks of, as data: never a secret. */
  readonly details: Readonly<Record<string, unknown>>
  readonly [BRAND] = true

  /** The message says what, which, and what to do; no secret is in it or in `details`. */
  constructor(code: ErrorCode, message: string, options: { cause?: unknown; details?: Record<string, unknown> } = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.name = 'OnceishError'
    this.code = code
    this.details = Object.freeze(options.details ?? {})
  }
}

/** True for our errors, from any copy of this package. */
export function isOnceishError(error: unknown): error is OnceishError {
  return error instanceof Error && (error as { [BRAND]?: true })[BRAND] === true
}

export function hasCode(error: unknown, ...codes: ErrorCode[]): boolean {
  return isOnceishError(error) && codes.includes(error.code)
}

/** A broken invariant of ours: it stops the worker and is never retried. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new OnceishError('INVARIANT_BROKEN', `broken invariant: ${message}; please report this`)
}
