// Time as limits must take it that only look now and then: what a wall clock was set ahead has passed for them, what it was set
// back has not come again.
import type { Schedule } from './schedule.ts'

export interface ForwardTime {
  /** In ms; never goes back, and is never slower than a wall clock. */
  now(): number
  /** How often the wall clock was found set back. */
  readonly setBacks: number
}

export function createForwardTime(schedule: Schedule): ForwardTime {
  let seen = { at: schedule.now(), offset: schedule.wallOffset }
  let time = 0
  let setBacks = 0
  return {
    get setBacks() {
      return setBacks
    },
    now: () => {
      const now = { at: schedule.now(), offset: schedule.wallOffset }
      if (now.offset < seen.offset) setBacks++
      time += now.at - seen.at + Math.max(0, now.offset - seen.offset)
      seen = now
      return time
    },
  }
}
