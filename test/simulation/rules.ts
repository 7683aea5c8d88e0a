// Each rule of safety, and the product without it: a text of the build that is replaced in a copy. What breaks is found by
// the simulation; `seed` is a schedule that shows it. Rules that no schedule can break have tests of their own: covered.ts.
import type { Patch } from './library.ts'
import type { Action } from './world.ts'

export interface Rule {
  /** Letters, digits and hyphens. */
  readonly name: string
  readonly what: string
  readonly patches: readonly Patch[]
  /** What its schedules have more of than others. */
  readonly often?: readonly Action[]
  readonly seed: number
}

const SETTLEMENT = 'core/settlement.js'
const WINDOWS = 'core/windows.js'
const RECONCILIATION = 'core/reconciliation.js'
const QUEUE_SQL = 'store/sqlite/sql/queue.js'
const TURN_SQL = 'store/sqlite/sql/turn.js'
const UPKEEP_SQL = 'store/sqlite/sql/upkeep.js'

export const RULES: readonly Rule[] = [
  {
    name: 'expiry-permits-investigation-only',
    what: 'a lease that ran out never puts a request back into the queue',
    patches: [
      {
        file: TURN_SQL,
        find: "SET state = 'unknown', version = version + 1, lease_owner = NULL",
        replace:
          "SET state = 'queued', doubtful_attempts = '', frozen = NULL, version = version + 1, lease_owner = NULL",
      },
      {
        file: 'store/sqlite/turn.js',
        find: 'moved += sql.expireIfInvoking.run({ id, now: word.now }).changes;',
        replace: `{
            moved += sql.expireIfInvoking.run({ id, now: word.now }).changes;
            sql.setDueAt.run(word.now, id);
            sql.insertReadyOf.run(id);
        }`,
      },
    ],
    seed: 1,
  },
  {
    name: 'frozen-bytes',
    what: 'a replay sends the bytes of the first attempt',
    patches: [
      {
        file: 'store/sqlite/claim.js',
        find: 'prepared,\n        leaseUntil: next.leaseUntil',
        replace:
          'prepared: input.claim.prepare({ requestId: row.requestId, target: row.target, payload, logicalHash: row.logicalHash, priority: row.priority, generation: row.generation }).call,\n        leaseUntil: next.leaseUntil',
      },
    ],
    seed: 3,
  },
  {
    name: 'key-without-request-id',
    what: 'a store rebuilt from the same inputs under its namespace comes to the same keys',
    patches: [
      {
        file: 'consumer/prepare.js',
        find: 'target.keyFor({ namespace, logicalHash, generation })',
        replace: "target.keyFor({ namespace: namespace + '/' + request.requestId, logicalHash, generation })",
      },
    ],
    seed: 16,
  },
  {
    name: 'window-with-margin',
    what: 'a replay leaves, and arrives, inside the time for which the key is remembered',
    patches: [
      {
        file: WINDOWS,
        find: 'return ageOf(row, clock) + slackMs(key, policy) <= key.rememberedForMs',
        replace: 'return ageOf(row, clock) - slackMs(key, policy) <= key.rememberedForMs',
      },
      {
        file: 'consumer/lease.js',
        find: 'if (writeWithinMs !== null && sinceClaimMs > writeWithinMs)',
        replace: 'if (false)',
      },
    ],
    seed: 8,
  },
  {
    name: 'window-by-the-latest-clock',
    what: 'a window ages by the latest of wall, high-water and steady time, and waits for a clock that is behind',
    patches: [
      {
        file: WINDOWS,
        find: 'return Math.max(clock.wall, clock.latest, clock.highWaterAt) - row.startedAt',
        replace: 'return clock.wall - row.startedAt',
      },
      { file: WINDOWS, find: 'behindMs > CLOCK_TOLERANCE_MS', replace: 'false' },
    ],
    seed: 35,
  },
  {
    name: 'settled-misses',
    what: 'a miss counts only once the attempt has been over for the settle time',
    patches: [{ file: 'recovery/reconcile.js', find: 'if (settledForMs < settleMs) {', replace: 'if (false) {' }],
    seed: 96,
  },
  {
    name: 'misses-by-the-smaller-clock',
    what: 'settle time is the smaller of the two clocks: a jump proves nothing',
    patches: [
      {
        file: 'recovery/settle-watch.js',
        find: 'Math.min(now.wall - (row.endedAt ?? now.wall), shortestSince(known.since, now))',
        replace: 'Math.max(now.wall - (row.endedAt ?? now.wall), shortestSince(known.since, now))',
      },
    ],
    seed: 10918,
  },
  {
    name: 'a-restart-waits-again',
    what: 'a process that has not watched an attempt be over knows of no settle time',
    patches: [
      {
        file: 'recovery/settle-watch.js',
        find: 'watched.set(row.requestId, { token, since: now });\n                return 0',
        replace:
          'watched.set(row.requestId, { token, since: now });\n                return now.wall - (row.endedAt ?? now.wall)',
      },
    ],
    seed: 82,
  },
  {
    name: 'complete-lookups-only',
    what: 'a lookup that saw only a part of the list is no miss',
    patches: [
      {
        file: 'recovery/reconcile.js',
        find: "case 'undetermined':\n                return undetermined(await timed(current), result)",
        replace:
          "case 'undetermined':\n                return judgeMiss(await timed(current), result.evidence, settledForMs, startedAt)",
      },
    ],
    seed: 3037,
  },
  {
    name: 'remembers-bounds-absent',
    what: 'later than a lookup remembers, a miss permits no call',
    patches: [{ file: WINDOWS, find: ' &&\n        isInsideLookupMemory(row, policy, clock));', replace: ');' }],
    seed: 15,
  },
  {
    name: 'executed-forbids-a-recall',
    what: 'after an answer that showed it happened, no miss permits a call',
    patches: [{ file: WINDOWS, find: '!row.executed &&\n', replace: '\n' }],
    seed: 449,
  },
  {
    name: 'sticky-doubt',
    what: 'an attempt without effect does not settle the doubt of another',
    patches: [
      {
        file: SETTLEMENT,
        find: 'const proven = { ...row, doubtfulAttempts: without(row, result.attempt) };',
        replace: 'const proven = { ...row, doubtfulAttempts: [] };',
      },
    ],
    seed: 5,
  },
  {
    name: 'rejected-in-doubt-is-held',
    what: 'a rejection while another attempt is in doubt leads to a person',
    patches: [
      {
        file: SETTLEMENT,
        find: "return hold(row, result, 'rejected_in_doubt')",
        replace:
          "return transition('dead', { patch: { ...RELEASED, doubtfulAttempts: [], nextCheckAt: null, reason: 'rejected' }, unfreeze: true })",
      },
    ],
    seed: 2356,
  },
  {
    name: 'spent-budget-in-doubt-is-not-dead',
    what: 'a budget spent while another attempt is in doubt ends nothing',
    patches: [
      {
        file: SETTLEMENT,
        find: 'if (row.doubtfulAttempts.length > 0)\n        return backToDoubt(row, result, context);',
        replace:
          "if (row.doubtfulAttempts.length > 0)\n        return row.attempts + row.replays < context.policy.retry.maxAttempts ? backToDoubt(row, result, context) : transition('dead', { patch: { ...RELEASED, doubtfulAttempts: [], nextCheckAt: null, reason: 'attempts_spent' }, unfreeze: true });",
      },
    ],
    seed: 5,
  },
  {
    name: 'generation-rises-without-doubt-only',
    what: 'no new key while an attempt under the present one is in doubt',
    patches: [
      {
        file: SETTLEMENT,
        find: 'const proven = { ...row, doubtfulAttempts: without(row, result.attempt) };',
        replace:
          "const proven = { ...row, doubtfulAttempts: context.policy.key?.failedFirst === 'replayed' ? [] : without(row, result.attempt) };",
      },
    ],
    seed: 65,
  },
  {
    name: 'next-number-for-a-freed-hash',
    what: 'a new request for a hash that was freed takes the next generation, and a key of its own',
    patches: [
      {
        file: QUEUE_SQL,
        find: 'request_id = ?, generation = generation + 1\n       WHERE hash = ? AND request_id IS NULL',
        replace: 'request_id = ?, generation = generation\n       WHERE hash = ? AND request_id IS NULL',
      },
    ],
    seed: 22,
  },
  {
    name: 'attempts-counted-at-the-claim',
    what: 'calls, re-calls and replays are counted before they are made: what kills its worker every time comes to an end',
    patches: [
      {
        file: TURN_SQL,
        find: "?, ?, ?, 1, '1', ?, ?, ?, ?, ?, ?, ?)",
        replace: "?, ?, ?, 0, '1', ?, ?, ?, ?, ?, ?, ?)",
      },
      { file: TURN_SQL, find: 'attempts = attempts + 1,', replace: 'attempts = attempts,' },
      { file: RECONCILIATION, find: 'patch: { replays: row.replays + 1 }', replace: 'patch: { replays: row.replays }' },
      { file: RECONCILIATION, find: 'attempts: row.attempts + 1,', replace: 'attempts: row.attempts,' },
    ],
    seed: 10,
  },
  {
    name: 'fencing-on-settle',
    what: 'an answer of an older attempt never settles a newer one',
    patches: [
      {
        file: SETTLEMENT,
        find: 'const isNewest = row.attempt === result.attempt && row.nonce === result.nonce;',
        replace: 'const isNewest = true;',
      },
    ],
    seed: 9,
  },
  {
    name: 'fencing-on-renew',
    what: 'whoever lost a lease cannot renew the one that another holds',
    patches: [
      {
        file: TURN_SQL,
        find: "WHERE request_id = ? AND attempt = ? AND nonce = ? AND state = 'invoking' AND lease_owner = ?",
        replace: "WHERE request_id = ? AND ? > 0 AND ? <> '' AND state = 'invoking' AND ? <> ''",
      },
    ],
    seed: 5,
  },
  {
    name: 'lease-at-the-write',
    what: 'bytes leave only while the lease covers the whole call',
    patches: [
      {
        file: 'consumer/lease.js',
        find: "return leaseMs - elapsedMs() < neededMs ? 'lease_too_short' : null",
        replace: 'return null',
      },
    ],
    seed: 4,
  },
  {
    name: 'settled-stays-settled',
    what: 'no late answer takes the place of the task that a request was settled on',
    patches: [{ file: SETTLEMENT, find: 'if (isSettled(row.state) || knowsTask)', replace: 'if (knowsTask)' }],
    seed: 1,
  },
  {
    name: 'late-answers-settle',
    what: "an answer of the newest attempt settles its request also from doubt and from a person's list",
    patches: [
      {
        file: SETTLEMENT,
        find: 'return isNewest && isInDoubt(row.state) ?',
        replace: "return isNewest && row.state === 'invoking' ?",
      },
    ],
    seed: 20,
  },
  {
    name: 'late-answers-under-the-key-settle',
    what: 'an accepted answer of an older attempt under the same key settles the request',
    patches: [
      {
        file: SETTLEMENT,
        find: 'const isSameTask = tellsRepeats(context.policy.key) && isSameKey;',
        replace: 'const isSameTask = false;',
      },
    ],
    seed: 104,
  },
  {
    name: 'a-confirmation-is-no-orphan',
    what: 'an answer that names the known task again is noted nowhere as another one',
    patches: [
      {
        file: SETTLEMENT,
        find: 'if (accepted === null || accepted.taskId === null || accepted.taskId === settledOn)',
        replace: 'if (accepted === null || accepted.taskId === null)',
      },
    ],
    seed: 1,
  },
  {
    name: 'retry-refuses-doubt',
    what: '`retry` takes nothing back into the queue that may have happened',
    patches: [
      {
        file: 'store/sqlite/operator.js',
        find: "if (row.state !== 'dead')\n",
        replace: "if (row.state !== 'dead' && row.state !== 'held' && row.state !== 'unknown')\n",
      },
    ],
    seed: 34,
  },
  {
    name: 'a-word-waits-for-the-last-call',
    what: '`resolve` leads to no call while the last one can still land',
    patches: [{ file: 'store/sqlite/operator.js', find: 'if (until > word.now && !force) {', replace: 'if (false) {' }],
    seed: 628,
  },
  {
    name: 'cancel-waits-for-proof',
    what: 'a request in doubt is canceled only once it is known that there is no task, or that it is canceled too',
    patches: [
      {
        file: 'store/sqlite/operator.js',
        find: 'if (isInDoubt(row.state))\n',
        replace: "if (row.state === 'invoking')\n",
      },
    ],
    seed: 9,
  },
  {
    name: 'purge-refuses-doubt',
    what: 'a purge leaves what is in doubt',
    patches: [
      {
        file: UPKEEP_SQL,
        find: `  state IN ('submitted', 'succeeded', 'failed', 'expired', 'lost', 'dead', 'canceled')
  AND state IN (SELECT value FROM json_each(:states))
`,
        replace: "  (state <> 'queued' OR :states IS NULL)\n",
      },
      { file: UPKEEP_SQL, find: "  AND (doubtful_attempts = '' OR abandoned = 1)\n", replace: '' },
    ],
    seed: 2,
  },
  {
    name: 'a-clock-set-back-is-remembered',
    what: 'what a process saw of a clock that was set back is known to whoever comes after it',
    patches: [{ file: 'core/clock.js', find: 'advance(clock.wallNow() + clockAheadMs);', replace: ';' }],
    seed: 2253,
  },
  {
    name: 'a-copy-waits-for-a-word',
    what: 'a store that is behind its record of calls was put back from a copy, and calls nothing by itself',
    patches: [{ file: 'store/origin.js', find: 'if (own.highWaterAt < record.highWaterAt)', replace: 'if (false)' }],
    seed: 885,
  },
  {
    name: 'window-counted-from-the-copy',
    what: 'what a store put back from a copy has forgotten was called right after the copy, at the earliest',
    patches: [
      {
        file: 'core/forgotten-call.js',
        find: 'startedAt: Math.min(row.startedAt ?? time.knownUntil, time.knownUntil)',
        replace: 'startedAt: row.startedAt ?? time.now',
      },
    ],
    often: ['copy the store', 'put the copy back'],
    seed: 633,
  },
  {
    name: 'one-of-a-key-at-a-time',
    what: 'of an ordering key nobody is called before those of lower ids have settled',
    patches: [
      {
        file: 'store/sqlite/enqueue.js',
        find: 'const hasTurn = orderingKey === null ||',
        replace: 'const hasTurn = true ||',
      },
    ],
    seed: 1,
  },
  {
    name: 'a-replay-waits-for-its-turn',
    what: 'what a copy has forgotten is repeated in the order of its ordering key, too',
    patches: [
      {
        file: 'store/sqlite/checks.js',
        find: 'waitsForTurn(sql, requestId) ? NOT_ITS_TURN : lanes.take(',
        replace: 'lanes.take(',
      },
    ],
    often: ['copy the store', 'put the copy back'],
    seed: 291,
  },
  {
    name: 'the-dead-keep-their-turn',
    what: 'where a target says so, a dead request keeps those behind it waiting',
    patches: [
      {
        file: SETTLEMENT,
        find: "attempts, nextCheckAt: null, reason, evidence },\n        keepsPlace: onDead === 'block'",
        replace: 'attempts, nextCheckAt: null, reason, evidence },\n        keepsPlace: false',
      },
    ],
    seed: 20,
  },
  {
    name: 'a-retried-one-waits-for-a-call',
    what: 'a request that a person queues again is not called beside another of its ordering key',
    patches: [
      {
        file: 'store/sqlite/ordering.js',
        find: 'return leaveQueue(sql, { requestId, target, group, priority }, dueAt) ? dueAt : null',
        replace: 'return leaveQueue(sql, { requestId, target, group, priority }, dueAt) || true ? dueAt : null',
      },
    ],
    seed: 2924,
  },
  {
    name: 'no-first-call-after-the-deadline',
    what: 'what was never called, or surely had no effect, is not called after its deadline',
    patches: [
      { file: SETTLEMENT, find: 'return expiresAt !== null && expiresAt <= now', replace: 'return false' },
      {
        file: QUEUE_SQL,
        find: 'FROM expiries WHERE expires_at <= ? ORDER',
        replace: 'FROM expiries WHERE expires_at <= ? - 5000 ORDER',
      },
      {
        file: 'store/sqlite/claim.js',
        find: 'return expiresAt === null ? null : expiresAt - now',
        replace: 'return null',
      },
    ],
    seed: 32,
  },
  {
    name: 'the-deadline-at-the-write',
    what: 'a call that was claimed in time does not leave after its deadline',
    patches: [
      {
        file: 'store/sqlite/claim.js',
        find: 'return expiresAt === null ? null : expiresAt - now',
        replace: 'return null',
      },
    ],
    seed: 275,
  },
  {
    name: 'no-recall-after-the-deadline',
    what: 'after settled misses, and its deadline, a request is not called anew',
    patches: [
      { file: RECONCILIATION, find: 'if (isExpired(row, now))', replace: 'if (false)' },
      { file: 'store/sqlite/checks.js', find: 'leftMs(row.expiresAt, word.now)', replace: 'null' },
    ],
    seed: 172,
  },
  {
    name: 'doubt-does-not-expire',
    what: 'a deadline ends no request that may have happened',
    patches: [
      {
        file: RECONCILIATION,
        find: 'return later(row, verdict, context.now)',
        replace:
          'return isExpired(row, context.now) ? expired(row, verdict.evidence) : later(row, verdict, context.now)',
      },
    ],
    seed: 78,
  },
]
