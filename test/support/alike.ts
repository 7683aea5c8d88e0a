/** Claims of no worker that keeps account: all targets stand alike, and whatever a turn takes makes no difference to that. */
export const ALIKE = {
  buckets: {},
  standingOf: () => ({ room: Number.MAX_VALUE, lastTaken: 0 }),
  lookFrom: null,
} as const
