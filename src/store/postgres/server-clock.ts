// The server's clock as this process can tell it between two answers: machines may be an hour apart, and the store's time is one.
import { type Clock, systemClock } from '../../core/clock.ts'

export interface ServerClock extends Clock {
  /** @param serverNow epoch ms, read after `askedAt` (monotonic ms) and before now. */
  hear(serverNow: number, askedAt: number): void
}

/** By how much two readings may differ without the clock being moved. */
const NOISE_MS = 20

export function createServerClock(): ServerClock {
  const { monotonicNow, after } = systemClock
  /** Wall minus monotonic. */
  let offset: number | null = null

  return {
    wallNow: () => Math.floor(offset === null ? systemClock.wallNow() : monotonicNow() + offset),
    monotonicNow,
    after,
    hear: (serverNow, askedAt) => {
      const answeredAt = monotonicNow()
      const least = serverNow - answeredAt
      const most = serverNow - askedAt
      // What it said lies between the two; a slow answer proves little.
      if (offset !== null && offset >= least - NOISE_MS && offset <= most + NOISE_MS) return
      offset = (least + most) / 2
    },
  }
}
