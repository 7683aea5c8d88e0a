/** A turn in which nobody says anything. */
export const NOTHING_SAID = { results: [], renewals: [], reconciliations: [], trackings: [] } as const

/** Claims of no worker that keeps account: all targets stand alike, and whatever a turn takes makes no difference to that. */
export const ALIKE = {
  buckets: {},
  standingOf: () => ({ room: Number.MAX_VALUE, lastTaken: 0 }),
  lookFrom: null,
} as const
