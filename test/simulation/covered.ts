// Rules that no schedule shows, since they lie below the protocol or another rule stands behind them: each has a test that
// fails without it.

export interface Covered {
  readonly name: string
  /** Below test/. */
  readonly file: string
  readonly test: string
}

export const COVERED: readonly Covered[] = [
  {
    name: 'synced-before-the-first-byte',
    file: 'machine/power-cut.test.ts',
    test: 'every invoking row is on disk before the first byte of its call, every settlement before anybody is told',
  },
  {
    name: 'write-once',
    file: 'target/http/submit.test.ts',
    test: 'refuses the second write of any dispatcher',
  },
  {
    // The margin covers whatever delay the lease allows.
    name: 'window-at-the-write',
    file: 'consumer/lease.test.ts',
    test: 'a renewed lease does not bring back the time in which a replay may leave',
  },
  {
    // The write asks once more.
    name: 'window-asked-again-in-the-transaction',
    file: 'store/turn.test.ts',
    test: 'a replay is checked again where it is written: outside the window it is held',
  },
  {
    // Every verdict is judged anew by the row that it finds.
    name: 'fencing-on-reconcile',
    file: 'store/turn.test.ts',
    test: 'a verdict on a version that is gone changes nothing',
  },
  {
    // The model's calls never outlast their deadline.
    name: 'end-of-lease-is-no-end-of-call',
    file: 'recovery/reconcile.test.ts',
    test: 'where only the lease’s end is known, the call may still run: its whole deadline is watched too',
  },
  {
    name: 'same-answer-twice-is-a-no-op',
    file: 'store/turn.test.ts',
    test: 'settling the same answer twice is a no-op',
  },
]
