// The states of a request and the only ways between them. Every write names the state it leaves.
import type { Evidence } from './outcome.ts'

/** What a user sees. `scheduled` and `ready` are queued: the store's queue tables tell them apart. */
export const REQUEST_STATES = [
  'scheduled',
  'ready',
  'invoking',
  'unknown',
  'held',
  'submitted',
  'succeeded',
  'failed',
  'expired',
  'lost',
  'dead',
  'canceled',
] as const
/** One of the states that a user sees. */
export type RequestState = (typeof REQUEST_STATES)[number]

export const QUEUED_STATES = ['ready', 'scheduled'] as const satisfies readonly RequestState[]
export type QueuedState = (typeof QUEUED_STATES)[number]

export function isQueued(state: RequestState | undefined): state is QueuedState {
  return state === 'ready' || state === 'scheduled'
}

/** What `task_state.state` holds. */
export type StoredState = 'queued' | Exclude<RequestState, 'scheduled' | 'ready'>

/** From each state, the states that one transition may lead to. `queued` is ready or scheduled. */
export const TRANSITIONS: Readonly<Record<StoredState, readonly StoredState[]>> = {
  queued: ['invoking', 'submitted', 'dead', 'canceled', 'held', 'unknown'],
  invoking: ['submitted', 'unknown', 'held', 'queued', 'dead', 'canceled'],
  unknown: ['submitted', 'invoking', 'held', 'queued', 'dead', 'canceled'],
  held: ['submitted', 'unknown', 'queued', 'dead', 'canceled'],
  submitted: ['succeeded', 'failed', 'expired', 'lost'],
  succeeded: [],
  // By a person's word only, who has an orphan adopted instead.
  failed: ['submitted'],
  expired: ['submitted'],
  lost: ['submitted'],
  dead: ['queued', 'canceled', 'submitted'],
  canceled: [],
}

export function isAllowed(from: StoredState, to: StoredState): boolean {
  return TRANSITIONS[from].includes(to)
}

/** The request's work is owed no more: its task is known. */
export function isSettled(state: StoredState): boolean {
  return state === 'submitted' || state === 'succeeded' || state === 'failed' || state === 'expired' || state === 'lost'
}

/** Nothing is owed and nothing in doubt any more: what a purge may remove, if its row says so too. */
export const ENDED_STATES = [
  'submitted',
  'succeeded',
  'failed',
  'expired',
  'lost',
  'dead',
  'canceled',
] as const satisfies readonly StoredState[]
/** States that purge may remove. */
export type EndedState = (typeof ENDED_STATES)[number]

export function isInDoubt(state: StoredState): boolean {
  return state === 'invoking' || state === 'unknown' || state === 'held'
}

/** A late acceptance of an attempt that a newer one has followed. */
export interface OlderAnswer {
  readonly attempt: number
  /** Null where the target gives no ids. */
  readonly taskId: string | null
  readonly evidence: Evidence
}

/** One row of `task_state`: what is known of the outside. Instants are UTC epoch ms. */
export interface TaskState {
  readonly requestId: number
  readonly state: StoredState
  readonly target: string
  /** Names the frozen description that the newest attempt used. */
  readonly targetVersion: string | null
  readonly logicalHash: string
  readonly priority: number
  readonly taskId: string | null
  /** Rises with every transition: what a person saw, for compare-and-set. */
  readonly version: number
  /** With `nonce` and the store's incarnation the fencing token. 0: never claimed. */
  readonly attempt: number
  readonly nonce: string
  readonly generation: number
  readonly idempotencyKey: string | null
  /** Retry budget used; README, "Retries". */
  readonly attempts: number
  readonly replays: number
  /** Exponent of the next backoff. */
  readonly backoffStep: number
  /** Attempts that may have had an effect and are not settled, the newest included from its claim on. */
  readonly doubtfulAttempts: readonly number[]
  /** An answer showed that it happened, though no id could be read. */
  readonly executed: boolean
  readonly cancelRequested: boolean
  /** `--abandon`: dead by a person's word although in doubt. */
  readonly abandoned: boolean
  readonly leaseOwner: string | null
  readonly leaseUntil: number | null
  /** Commit of the generation's first attempt that may have left, in steady time (`clock.ts`). */
  readonly startedAt: number | null
  /** When the newest attempt can last have written: its answer or close, else the end of its lease. */
  readonly endedAt: number | null
  /** The end was an answer, a reset or a close; else the lease's end stands for it, and the call may still be running. */
  readonly isEndObserved: boolean
  /** In doubt since; of a submitted row: its task's state unclear since. */
  readonly unknownSince: number | null
  readonly nextCheckAt: number | null
  /** Settled misses of lookups; of a submitted row: how often the API did not know its task. */
  readonly misses: number
  readonly lastMissAt: number | null
  /** A late acceptance of an older attempt without a key, waiting for the newer attempt to settle. */
  readonly olderAnswer: OlderAnswer | null
  /** Why it is held, dead, blocked or waiting: a short stable word. */
  readonly reason: string | null
  readonly evidence: Evidence | null
  /** Past it no call may begin what was never called, or surely never happened; null: it has no deadline. */
  readonly expiresAt: number | null
  readonly createdAt: number
  readonly updatedAt: number
}
