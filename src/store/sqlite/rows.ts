// Between SQL rows and the words of core: one mapping each way.
import { derivedBytes } from '../../core/logical-hash.ts'
import type { Evidence } from '../../core/outcome.ts'
import type { PreparedCall } from '../../core/prepared-call.ts'
import type { OlderAnswer, TaskState } from '../../core/task-state.ts'

/** A derived logical hash is stored as its 32 bytes, a given one as text. */
export type StoredHash = Buffer | string

export function storedHash(logicalHash: string): StoredHash {
  return derivedBytes(logicalHash) ?? logicalHash
}

export function logicalHashOf(stored: StoredHash): string {
  return typeof stored === 'string' ? stored : `v1:${stored.toString('hex')}`
}

export interface TaskStateRow {
  request_id: number
  state: TaskState['state']
  target: string
  target_version: string | null
  logical_hash: StoredHash
  priority: number
  task_id: string | null
  version: number
  attempt: number
  nonce: string
  generation: number
  idempotency_key: string | null
  attempts: number
  replays: number
  backoff_step: number
  doubtful_attempts: string
  executed: number
  cancel_requested: number
  abandoned: number
  lease_owner: string | null
  lease_until: number | null
  started_at: number | null
  ended_at: number | null
  is_end_observed: number
  unknown_since: number | null
  next_check_at: number | null
  misses: number
  last_miss_at: number | null
  older_answer: string | null
  reason: string | null
  evidence: string | null
  frozen: string | null
  created_at: number
  updated_at: number
  expires_at: number | null
}

export function toTaskState(row: TaskStateRow): TaskState {
  return {
    requestId: row.request_id,
    state: row.state,
    target: row.target,
    targetVersion: row.target_version,
    logicalHash: logicalHashOf(row.logical_hash),
    priority: row.priority,
    taskId: row.task_id,
    version: row.version,
    attempt: row.attempt,
    nonce: row.nonce,
    generation: row.generation,
    idempotencyKey: row.idempotency_key,
    attempts: row.attempts,
    replays: row.replays,
    backoffStep: row.backoff_step,
    doubtfulAttempts: row.doubtful_attempts === '' ? [] : row.doubtful_attempts.split(',').map(Number),
    executed: row.executed === 1,
    cancelRequested: row.cancel_requested === 1,
    abandoned: row.abandoned === 1,
    leaseOwner: row.lease_owner,
    leaseUntil: row.lease_until,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    isEndObserved: row.is_end_observed === 1,
    unknownSince: row.unknown_since,
    nextCheckAt: row.next_check_at,
    misses: row.misses,
    lastMissAt: row.last_miss_at,
    olderAnswer: row.older_answer === null ? null : (JSON.parse(row.older_answer) as OlderAnswer),
    reason: row.reason,
    evidence: row.evidence === null ? null : (JSON.parse(row.evidence) as Evidence),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    expiresAt: row.expires_at,
  }
}

/** Without `frozen`, which has a life of its own. */
export function fromTaskState(row: TaskState): Omit<TaskStateRow, 'frozen'> {
  return {
    request_id: row.requestId,
    state: row.state,
    target: row.target,
    target_version: row.targetVersion,
    logical_hash: storedHash(row.logicalHash),
    priority: row.priority,
    task_id: row.taskId,
    version: row.version,
    attempt: row.attempt,
    nonce: row.nonce,
    generation: row.generation,
    idempotency_key: row.idempotencyKey,
    attempts: row.attempts,
    replays: row.replays,
    backoff_step: row.backoffStep,
    doubtful_attempts: row.doubtfulAttempts.join(','),
    executed: row.executed ? 1 : 0,
    cancel_requested: row.cancelRequested ? 1 : 0,
    abandoned: row.abandoned ? 1 : 0,
    lease_owner: row.leaseOwner,
    lease_until: row.leaseUntil,
    started_at: row.startedAt,
    ended_at: row.endedAt,
    is_end_observed: row.isEndObserved ? 1 : 0,
    unknown_since: row.unknownSince,
    next_check_at: row.nextCheckAt,
    misses: row.misses,
    last_miss_at: row.lastMissAt,
    older_answer: row.olderAnswer === null ? null : JSON.stringify(row.olderAnswer),
    reason: row.reason,
    evidence: row.evidence === null ? null : JSON.stringify(row.evidence),
    created_at: row.createdAt,
    updated_at: row.updatedAt,
    expires_at: row.expiresAt,
  }
}

/** A body that is the payload's own text is not stored twice: `true` stands for it. */
type FrozenBody = string | null | true
type FrozenHead = [method: string, url: string, headers: Record<string, string>, body: FrozenBody]

export function freeze(call: PreparedCall, payload: string): string {
  const body: FrozenBody = call.body === payload ? true : call.body
  return JSON.stringify([call.method, call.url, call.headers, body, call.account])
}

/** Older rows have the call's fingerprint before the account. */
export function thaw(frozen: string, payload: string): PreparedCall {
  const [method, url, headers, body, ...rest] = JSON.parse(frozen) as [...FrozenHead, ...(string | null)[]]
  return { method, url, headers, body: body === true ? payload : body, account: rest.at(-1) ?? null }
}
