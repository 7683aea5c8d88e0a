// One operation of a third-party API, as the services see it: they never know that it is HTTP.
import type { CancelResult, LookupResult, Outcome, TaskStatus } from '../core/outcome.ts'
import type { TargetPolicy } from '../core/policy.ts'
import type { PreparedCall } from '../core/prepared-call.ts'

/** What expressions see as `$request`. */
export interface RequestFacts {
  readonly requestId: number
  readonly logicalHash: string
  readonly generation: number
  readonly priority: number
}

export interface PrepareInput {
  /** JSON text as it was enqueued. */
  readonly payload: string
  /** Null where the target has neither key nor client id. */
  readonly key: string | null
  readonly request: RequestFacts
}

/**
 * Asked synchronously with the write, after the dial: `null` lets the bytes leave, a reason stops the call unwritten.
 * `neededMs`: how much of the lease must be left; default the target's whole `timeoutMs`.
 */
export type WriteGate = (neededMs?: number) => string | null

/**
 * What an AbortSignal is to those who only listen. The one of a call is simpler: an AbortSignal for each costs more than all else
 * that a worker keeps of it.
 */
export interface AbortLike {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void, options?: { readonly once: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
}

export interface InvokeOptions {
  /** Facts for headers that are rendered anew. */
  readonly input: PrepareInput
  readonly gate: WriteGate
  /** Called right after the gate opened: from here on the call may have an effect. */
  readonly onWritten?: () => void
  /** Code that went on beyond its deadline has come to an end after all: a late answer. */
  readonly onLate?: (outcome: Outcome) => void
  /** Ends the call at once: `not_executed` if nothing was written, else `unknown`. */
  readonly signal?: AbortLike
}

export interface LookupInput extends PrepareInput {
  readonly prepared: PreparedCall
  readonly taskId: string | null
}

/** A submitted request's payload is gone; its task is what is asked about. */
export type StatusInput = Omit<PrepareInput, 'payload'> & { readonly taskId: string | null }

export interface Target {
  readonly name: string
  /** Names the description; changes with it. */
  readonly version: string
  /** What is stored of it, so that doubt is recovered as it was made. */
  readonly description: string
  readonly policy: TargetPolicy
  /** For people: `POST https://...`. */
  readonly summary: string
  /** The idempotency key in this target's form; null where it has none. */
  keyFor(input: { namespace: string; logicalHash: string; generation: number }): string | null
  /** Pure and synchronous. Throws OnceishError RENDER_FAILED when the payload does not fit the description. */
  prepare(input: PrepareInput): PreparedCall
  /** Loads what calls need, before a worker claims any: no lease waits for it. */
  open?(): Promise<void>
  /** At most one write, never a retry, never rejects. */
  invoke(prepared: PreparedCall, options: InvokeOptions): Promise<Outcome>
  /** Never rejects: trouble is `undetermined`. */
  lookup(input: LookupInput, signal?: AbortLike): Promise<LookupResult>
  cancel(input: LookupInput & { taskId: string }, signal?: AbortLike): Promise<CancelResult>
  /** Never rejects. */
  status(input: StatusInput, signal?: AbortLike): Promise<TaskStatus>
  /** Whether a frozen call still goes to the origin and account that present settings name; else a miss proves nothing and replay waits. */
  sameOrigin(prepared: PreparedCall): boolean
  /** A call for this request has been given up and not come to an end in this process: no miss counts meanwhile. */
  isRunning?(requestId: number): boolean
  close(): Promise<void>
}

export interface TargetRegistry {
  /** Present targets, in config order. */
  readonly targets: readonly Target[]
  get(name: string): Target | undefined
  /** The target as described at `version`: the present one, or rebuilt from its stored description; undefined where nobody can. */
  at(name: string, version: string | null, description: string | null): Target | undefined
  close(): Promise<void>
}
