// The rules of limits, told waits, pauses and breakers, and the product without each.
import type { Rule } from './rules.ts'

const SETTLEMENT = 'core/settlement.js'
const BREAKER = 'core/breaker.js'
const PERMITS = 'store/sqlite/permits.js'
const TOLD_WAITS = 'store/sqlite/told-waits.js'

export const LIMIT_RULES: readonly Rule[] = [
  {
    name: 'permits-charged-in-the-claim',
    what: 'what a claim takes of a rate is written down in its transaction, for all workers',
    patches: [{ file: PERMITS, find: 'if (this.taken > 0 || isSetBack)', replace: 'if (isSetBack)' }],
    seed: 7,
  },
  {
    name: 'a-bucket-is-one-for-all-its-targets',
    what: 'calls of all targets that name a bucket are charged to it',
    patches: [{ file: PERMITS, find: 'made.push(...ofBucket(bucket));', replace: ';' }],
    seed: 9,
  },
  {
    name: 'replays-take-permits',
    what: 'replays, and calls again after a miss, wait for their limits as first calls do',
    patches: [
      {
        file: 'store/sqlite/checks.js',
        find: 'waitsForTurn(sql, requestId) ? NOT_ITS_TURN : lanes.take(target, requestId)',
        replace: 'waitsForTurn(sql, requestId) ? NOT_ITS_TURN : null',
      },
    ],
    seed: 4,
  },
  {
    name: 'concurrency-counts-calls-of-others',
    what: 'calls in flight are counted in the store, whoever makes them',
    patches: [
      {
        file: PERMITS,
        find: 'slotPermits(limits.concurrency - sql.invokingOfBucket.get(name))',
        replace: 'slotPermits(limits.concurrency)',
      },
      {
        file: PERMITS,
        find: 'slotPermits(concurrency - sql.invokingOf.get(name))',
        replace: 'slotPermits(concurrency)',
      },
    ],
    seed: 8,
  },
  {
    name: 'only-what-never-left-gives-its-permit-back',
    what: 'a call that the API has seen stays charged',
    patches: [
      {
        file: 'store/sqlite/settle.js',
        find: "if (result.outcome.evidence.phase === 'not_sent')",
        replace: 'if (true)',
      },
    ],
    seed: 7,
  },
  {
    name: 'a-permit-comes-back-less-what-was-earned',
    what: 'a token that was not used comes back as what a full bucket would have kept of it',
    patches: [
      {
        file: 'core/token-bucket.js',
        find: 'return Math.min(1, Math.max(0, 1 - (Math.max(0, sinceMs) * rate.count) / rate.perMs))',
        replace: 'return 1',
      },
    ],
    often: ['stall'],
    seed: 7336,
  },
  {
    name: 'an-attempt-gives-back-its-own-permit',
    what: 'that an attempt never left gives back no permit of the one after it',
    patches: [
      {
        file: TOLD_WAITS,
        find: "if (state !== 'invoking' || attempt !== unsent.attempt)",
        replace: "if (state !== 'invoking')",
      },
    ],
    seed: 130,
  },
  {
    name: 'a-closed-lane-opens-by-time',
    what: 'whoever waits for a permit is woken when there is one',
    patches: [
      {
        file: 'store/sqlite/turn.js',
        find: 'earliest(nextDueAt(sql), nextCheckAt, nextTokenAt)',
        replace: 'earliest(nextDueAt(sql), nextCheckAt)',
      },
    ],
    seed: 7,
  },
  {
    name: 'a-told-wait-stops-everybody',
    what: 'until what one call was told is over, no worker calls for anybody',
    patches: [{ file: TOLD_WAITS, find: 'if (leftMs <= 0)', replace: 'if (true)' }],
    seed: 31,
  },
  {
    name: 'a-wait-counts-from-its-answer',
    what: 'an answer that is read late, or again, stops nobody for what is over',
    patches: [
      {
        file: TOLD_WAITS,
        find: 'Math.min(endedAt, word.now) + outcome.retryAfterMs - word.now',
        replace: 'outcome.retryAfterMs',
      },
    ],
    seed: 60,
  },
  {
    name: 'a-shorter-wait-cuts-none-short',
    what: 'of two waits the one that ends later counts',
    patches: [
      {
        file: 'store/sqlite/sql/limits.js',
        find: 'WHERE timed_pauses.until < :told_until',
        replace: 'WHERE :told_until > 0',
      },
    ],
    seed: 183,
  },
  {
    name: 'calls-begin-slowly-after-a-wait',
    what: 'right after a told wait one call begins, or a tenth of the limit',
    patches: [
      {
        file: 'core/ramp.js',
        find: 'return Math.max(1, Math.floor(callsAStep(limits, stepMs) * FIRST_SHARE * steps + 1e-9))',
        replace: 'return Number.POSITIVE_INFINITY',
      },
    ],
    seed: 51,
  },
  {
    name: 'being-limited-burns-no-attempt',
    what: 'a call that the API refused for going too fast costs no attempt',
    patches: [
      {
        file: SETTLEMENT,
        find: "return outcome.kind === 'blocked' || (outcome.kind === 'not_executed' && outcome.refund)",
        replace: "return outcome.kind === 'blocked' || (outcome.kind === 'not_executed' && !outcome.written)",
      },
    ],
    seed: 56,
  },
  {
    name: 'refused-credentials-pause-their-target',
    what: 'after an answer that refused the credentials nobody calls before a person says so',
    patches: [
      {
        file: SETTLEMENT,
        find: "const pauseTarget = outcome.kind === 'blocked' ? blockedReason(outcome.evidence) : null",
        replace: 'const pauseTarget = null',
      },
    ],
    seed: 45,
  },
  {
    name: 'nobody-calls-a-paused-target',
    what: 'a pause is asked for in the transaction that claims',
    patches: [
      {
        file: 'store/sqlite/lanes.js',
        find: 'const paused = new Set(sql.pausedTargets.all());',
        replace: 'const paused = new Set();',
      },
    ],
    seed: 4,
  },
  {
    name: 'failures-open-the-breaker',
    what: 'after so many failures in a row nobody calls but a probe',
    patches: [{ file: BREAKER, find: "if (bearing === 'failure' && isFailing)", replace: 'if (false)' }],
    seed: 4,
  },
  {
    name: 'one-probe-at-a-time',
    what: 'while a probe is out nobody else calls',
    patches: [
      {
        file: PERMITS,
        find: 'saveBreaker(turn, target, breaker, beginProbe(breaker, this.takenBy, word.now, input.leaseMs));',
        replace: ';',
      },
    ],
    seed: 48,
  },
  {
    name: 'a-failed-probe-doubles-the-wait',
    what: 'each probe that fails keeps its target closed for twice as long',
    patches: [{ file: BREAKER, find: 'policy.probeMs * 2 ** failedProbes', replace: 'policy.probeMs' }],
    seed: 221,
  },
  {
    name: 'a-lost-probe-is-given-up',
    what: 'a probe whose worker died keeps nobody waiting beyond its lease',
    patches: [
      {
        file: BREAKER,
        find: 'probe: requestId, probeAt: now + untilMs',
        replace: 'probe: requestId, probeAt: now + 1e9',
      },
    ],
    seed: 1082,
  },
]
