// The tables as both sides have them: PostgreSQL, which keeps them, and the slice of them in memory on which the rules run. Columns
// have the same names and meanings; a derived logical hash is text here and 32 bytes there.
export interface Table {
  readonly name: string
  readonly key: readonly string[]
  /** Column and PostgreSQL type. */
  readonly columns: Readonly<Record<string, string>>
  /** The column by which the engine numbers new rows, in the order in which they are inserted. */
  readonly numbered?: string
}

const NAME = 'text COLLATE "C"'

const REQUESTS: Table = {
  name: 'requests',
  key: ['request_id'],
  columns: {
    request_id: 'bigint',
    target: NAME,
    logical_hash: 'text',
    priority: 'integer',
    due_at: 'bigint',
    generation: 'integer',
    dedupe: 'text',
    created_at: 'bigint',
    payload: 'text',
    expires_at: 'bigint',
    ordering_key: NAME,
    group_key: NAME,
  },
}

const READY: Table = {
  name: 'ready',
  key: ['request_id'],
  columns: { target: NAME, group_key: NAME, rank: 'bigint', due_at: 'bigint', request_id: 'bigint' },
}

const WAITING: Table = {
  name: 'waiting',
  key: ['due_at', 'request_id'],
  columns: { due_at: 'bigint', request_id: 'bigint', target: NAME, rank: 'bigint' },
}

const EXPIRIES: Table = {
  name: 'expiries',
  key: ['expires_at', 'request_id'],
  columns: { expires_at: 'bigint', request_id: 'bigint' },
}

const LOGICAL_HASHES: Table = {
  name: 'logical_hashes',
  key: ['hash'],
  columns: { hash: 'bytea', payload_hash: 'bytea', request_id: 'bigint', generation: 'integer' },
}

const TASK_STATE: Table = {
  name: 'task_state',
  key: ['request_id'],
  columns: {
    request_id: 'bigint',
    state: 'text',
    target: NAME,
    target_version: 'text',
    logical_hash: 'text',
    priority: 'integer',
    task_id: 'text',
    version: 'integer',
    attempt: 'integer',
    nonce: 'text',
    generation: 'integer',
    idempotency_key: 'text',
    attempts: 'integer',
    replays: 'integer',
    backoff_step: 'integer',
    doubtful_attempts: 'text',
    executed: 'smallint',
    cancel_requested: 'smallint',
    abandoned: 'smallint',
    lease_owner: 'text',
    lease_until: 'bigint',
    started_at: 'bigint',
    ended_at: 'bigint',
    is_end_observed: 'smallint',
    unknown_since: 'bigint',
    next_check_at: 'bigint',
    misses: 'integer',
    last_miss_at: 'bigint',
    older_answer: 'text',
    reason: 'text',
    evidence: 'text',
    frozen: 'text',
    created_at: 'bigint',
    updated_at: 'bigint',
    expires_at: 'bigint',
  },
}

const KEPT_PAYLOADS: Table = {
  name: 'kept_payloads',
  key: ['request_id'],
  columns: { request_id: 'bigint', target: NAME, settled_at: 'bigint', payload: 'text' },
}

const ORPHANS: Table = {
  name: 'orphans',
  key: ['request_id', 'task_id'],
  numbered: 'orphan_id',
  columns: {
    orphan_id: 'bigint',
    request_id: 'bigint',
    target: NAME,
    attempt: 'integer',
    task_id: 'text',
    found_at: 'bigint',
    evidence: 'text',
  },
}

const TARGETS: Table = {
  name: 'targets',
  key: ['target'],
  columns: {
    target: NAME,
    paused_at: 'bigint',
    paused_by: 'text',
    pause_reason: 'text',
    tokens: 'double precision',
    tokens_at: 'bigint',
  },
}

const TARGET_VERSIONS: Table = {
  name: 'target_versions',
  key: ['target', 'version'],
  columns: { target: NAME, version: 'text', description: 'text', created_at: 'bigint' },
}

const BUCKETS: Table = {
  name: 'buckets',
  key: ['bucket'],
  columns: { bucket: NAME, tokens: 'double precision', tokens_at: 'bigint' },
}

const BUCKET_MEMBERS: Table = {
  name: 'bucket_members',
  key: ['target'],
  columns: { target: NAME, bucket: NAME },
}

const TIMED_PAUSES: Table = {
  name: 'timed_pauses',
  key: ['scope', 'name', 'cause'],
  columns: {
    scope: 'text',
    name: NAME,
    cause: 'text',
    since: 'bigint',
    until: 'bigint',
    told_by: 'text',
    begun: 'integer',
    ramp_ms: 'bigint',
  },
}

const BREAKERS: Table = {
  name: 'breakers',
  key: ['target'],
  columns: {
    target: NAME,
    failures_in_a_row: 'integer',
    counted_from: 'bigint',
    counted_calls: 'integer',
    counted_failures: 'integer',
    opened_at: 'bigint',
    reason: 'text',
    failed_probes: 'integer',
    probe_at: 'bigint',
    probe_request_id: 'bigint',
  },
}

const RANKINGS: Table = {
  name: 'rankings',
  key: ['target'],
  columns: { target: NAME, aging_ms: 'bigint', formers: 'text', moved: 'text' },
}

const ORDERING_HEADS: Table = {
  name: 'ordering_heads',
  key: ['target', 'ordering_key'],
  columns: { target: NAME, ordering_key: NAME, request_id: 'bigint' },
}

const ORDERING_FOLLOWERS: Table = {
  name: 'ordering_followers',
  key: ['target', 'ordering_key', 'request_id'],
  columns: { target: NAME, ordering_key: NAME, request_id: 'bigint', since_at: 'bigint', due_at: 'bigint' },
}

const GROUP_ROTATION: Table = {
  name: 'group_rotation',
  key: ['target', 'group_key'],
  columns: { target: NAME, place: 'bigint', group_key: NAME },
}

export const EVENTS: Table = {
  name: 'events',
  key: ['event_id'],
  numbered: 'event_id',
  columns: {
    event_id: 'bigint',
    request_id: 'bigint',
    target: NAME,
    at: 'bigint',
    kind: 'text',
    from_state: 'text',
    to_state: 'text',
    attempt: 'integer',
    actor: 'text',
    reason: 'text',
    detail: 'text',
  },
}

/** In the order in which all of them are written, so that two transactions that write the same rows wait and do not deadlock. */
export const TABLES: readonly Table[] = [
  REQUESTS,
  TASK_STATE,
  READY,
  WAITING,
  EXPIRIES,
  LOGICAL_HASHES,
  KEPT_PAYLOADS,
  ORPHANS,
  ORDERING_HEADS,
  ORDERING_FOLLOWERS,
  TARGETS,
  TARGET_VERSIONS,
  BUCKETS,
  BUCKET_MEMBERS,
  TIMED_PAUSES,
  BREAKERS,
  RANKINGS,
  GROUP_ROTATION,
  EVENTS,
]

/** As SQL has it: two columns have names that are words of its own. */
export function quoted(column: string): string {
  return column === 'until' || column === 'at' ? `"${column}"` : column
}
