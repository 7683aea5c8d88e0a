// Each rule of safety, and the product without it: a text of the build that is replaced in a copy. What breaks is found by
// the simulation; `seed` is a schedule that shows it.
import type { Patch } from './library.ts'

export interface Rule {
  /** Letters, digits and hyphens. */
  readonly name: string
  readonly what: string
  readonly patches: readonly Patch[]
  readonly seed: number
}

export const RULES: readonly Rule[] = [
  {
    name: 'expiry-permits-investigation-only',
    what: 'a lease that ran out never puts a request back into the queue',
    patches: [
      {
        file: 'store/sqlite/turn.js',
        find: "const expired = transition('unknown', {\n            patch: {\n                ...RELEASED,",
        replace:
          "const expired = transition('queued', {\n            dueAt: word.now,\n            unfreeze: true,\n            patch: {\n                ...RELEASED,\n                doubtfulAttempts: [],",
      },
    ],
    seed: 2,
  },
  {
    name: 'frozen-bytes',
    what: 'a replay sends the bytes of the first attempt',
    patches: [
      {
        file: 'store/sqlite/claim.js',
        find: 'prepared: thaw(stored.frozen, payload),\n        leaseUntil',
        replace:
          'prepared: input.claim.prepare({ requestId: row.requestId, target: row.target, payload, logicalHash: row.logicalHash, priority: row.priority, generation: row.generation }).call,\n        leaseUntil',
      },
    ],
    seed: 2,
  },
  {
    name: 'window-with-margin',
    what: 'a replay must arrive inside the time for which the key is remembered',
    patches: [
      {
        file: 'core/windows.js',
        find: 'return ageOf(row, clock) + slackMs(key, policy) <= key.rememberedForMs',
        replace: 'return ageOf(row, clock) - slackMs(key, policy) <= key.rememberedForMs',
      },
    ],
    seed: 4,
  },
  {
    name: 'settled-misses',
    what: 'a miss counts only once the attempt has been over for the settle time',
    patches: [{ file: 'recovery/reconcile.js', find: 'if (settledForMs < settleMs) {', replace: 'if (false) {' }],
    seed: 294,
  },
  {
    name: 'sticky-doubt',
    what: 'an attempt without effect does not settle the doubt of another',
    patches: [
      {
        file: 'core/settlement.js',
        find: 'if (row.doubtfulAttempts.length > 0)',
        replace: 'if (false)',
      },
    ],
    seed: 277,
  },
  {
    name: 'fencing-on-settle',
    what: 'an answer of an older attempt never settles a newer one',
    patches: [
      {
        file: 'core/settlement.js',
        find: 'const isNewest = row.attempt === result.attempt && row.nonce === result.nonce;',
        replace: 'const isNewest = true;',
      },
    ],
    seed: 2163,
  },
]
