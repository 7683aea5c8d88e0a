// What is kept of limits: tokens of targets and of the buckets that they share, and pauses that end by themselves.
import { row, value } from './text.ts'

/** Pauses of a target: its own, and those of its bucket. */
function pausesOf(target: string): string {
  return `((timed_pauses.scope = 'target' AND timed_pauses.name = ${target})
    OR (timed_pauses.scope = 'bucket' AND timed_pauses.name = (SELECT bucket FROM bucket_members WHERE bucket_members.target = ${target})))`
}

/** Those of `open` (a table with a column \`target\`) whose API told to wait beyond \`until\`. */
export function waitingBeyond(open: string, until: string): string {
  return `SELECT target FROM ${open} WHERE EXISTS
    (SELECT 1 FROM timed_pauses WHERE timed_pauses.until > ${until} AND ${pausesOf(`${open}.target`)})`
}

export const LIMIT_SQL = {
  // tokens
  targetTokens: row('SELECT tokens, tokens_at AS at FROM targets WHERE target = ? AND tokens_at IS NOT NULL'),
  saveTargetTokens: row(
    `INSERT INTO targets (target, tokens, tokens_at) VALUES (?, ?, ?)
     ON CONFLICT (target) DO UPDATE SET tokens = excluded.tokens, tokens_at = excluded.tokens_at`,
  ),
  // The next refill keeps it within the burst.
  returnTargetToken: row('UPDATE targets SET tokens = tokens + ? WHERE target = ? AND tokens_at IS NOT NULL'),
  bucketTokens: row('SELECT tokens, tokens_at AS at FROM buckets WHERE bucket = ?'),
  saveBucketTokens: row(
    `INSERT INTO buckets (bucket, tokens, tokens_at) VALUES (?, ?, ?)
     ON CONFLICT (bucket) DO UPDATE SET tokens = excluded.tokens, tokens_at = excluded.tokens_at`,
  ),
  returnBucketToken: row('UPDATE buckets SET tokens = tokens + ? WHERE bucket = ?'),

  // members
  joinBucket: row(
    `INSERT INTO bucket_members (target, bucket) VALUES (?, ?)
     ON CONFLICT (target) DO UPDATE SET bucket = excluded.bucket WHERE bucket <> excluded.bucket`,
  ),
  leaveBucket: row('DELETE FROM bucket_members WHERE target = ?'),
  invokingOfBucket: value(
    `SELECT COUNT(*) FROM task_state
     WHERE state = 'invoking' AND target IN (SELECT target FROM bucket_members WHERE bucket = ?)`,
  ),
  bucketMembers: row('SELECT target, bucket FROM bucket_members'),

  // pauses that end by themselves
  timedPauses: row('SELECT * FROM timed_pauses'),
  timedPausesOf: row(
    `SELECT timed_pauses.* FROM timed_pauses, (SELECT :target AS target) AS asked WHERE ${pausesOf('asked.target')}`,
  ),
  isWaiting: value(
    `SELECT EXISTS (SELECT 1 FROM timed_pauses
       WHERE scope = :scope AND name = :name AND cause = 'told_to_wait' AND until > :now)`,
  ),
  // A wait that is told while another lasts only makes it longer; once calls have begun again, it is a new one.
  beginWait: row(
    `INSERT INTO timed_pauses (scope, name, cause, since, until, told_by, ramp_ms) VALUES (:scope, :name, 'told_to_wait', :now, :until, :told_by, :ramp_ms)
     ON CONFLICT (scope, name, cause) DO UPDATE SET
       since = CASE WHEN timed_pauses.until > :now THEN timed_pauses.since ELSE :now END,
       until = :until, told_by = :told_by, ramp_ms = :ramp_ms, begun = 0
     WHERE timed_pauses.until < :told_until`,
  ),
  countBegun: row('UPDATE timed_pauses SET begun = begun + ? WHERE scope = ? AND name = ? AND cause = ?'),
  returnBegun: row(
    `UPDATE timed_pauses SET begun = MAX(0, begun - 1) WHERE until <= :claimed_at AND ${pausesOf(':target')}`,
  ),
  moveTimedPause: row(
    'UPDATE timed_pauses SET since = :since, until = :until WHERE scope = :scope AND name = :name AND cause = :cause',
  ),
  endTimedPause: row('DELETE FROM timed_pauses WHERE scope = ? AND name = ? AND cause = ?'),
  cutTimedPauses: row(`UPDATE timed_pauses SET until = :now WHERE until > :now AND ${pausesOf(':target')}`),

  // breakers, and the pauses that go with them
  breakers: row('SELECT * FROM breakers'),
  saveBreaker: row(
    `INSERT INTO breakers (target, failures_in_a_row, counted_from, counted_calls, counted_failures, opened_at, reason, failed_probes,
       probe_at, probe_request_id)
     VALUES (:target, :failures_in_a_row, :counted_from, :counted_calls, :counted_failures, :opened_at, :reason, :failed_probes,
       :probe_at, :probe_request_id)
     ON CONFLICT (target) DO UPDATE SET failures_in_a_row = excluded.failures_in_a_row, counted_from = excluded.counted_from,
       counted_calls = excluded.counted_calls, counted_failures = excluded.counted_failures, opened_at = excluded.opened_at,
       reason = excluded.reason, failed_probes = excluded.failed_probes, probe_at = excluded.probe_at,
       probe_request_id = excluded.probe_request_id`,
  ),
  deleteBreaker: row('DELETE FROM breakers WHERE target = ?'),
  saveBreakerPause: row(
    `INSERT INTO timed_pauses (scope, name, cause, since, until, told_by, ramp_ms)
     VALUES ('target', :target, 'breaker', :since, :until, :reason, :ramp_ms)
     ON CONFLICT (scope, name, cause) DO UPDATE SET since = :since, until = :until, told_by = :reason, ramp_ms = :ramp_ms, begun = 0`,
  ),
  endBreakerPause: row(
    `UPDATE timed_pauses SET until = :now, begun = 0 WHERE scope = 'target' AND name = :target AND cause = 'breaker'`,
  ),
  nextPauseEnd: value('SELECT MIN(until) FROM timed_pauses WHERE until > ?'),
} as const
