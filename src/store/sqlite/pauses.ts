// What stops a target, as it is stored and as people are shown it: a person's pause, and pauses that end by themselves.
import type { WaitScope } from '../../core/policy.ts'
import type { TimedPause } from '../views.ts'

export interface TimedPauseRow {
  readonly scope: WaitScope
  readonly name: string
  readonly cause: string
  readonly since: number
  readonly until: number
  readonly told_by: string
  readonly begun: number
  readonly ramp_ms: number
}

export function toTimedPause({ told_by: toldBy, ramp_ms: rampMs, ...pause }: TimedPauseRow): TimedPause {
  return { ...pause, toldBy, rampUntil: pause.until + rampMs }
}

/** Of a person, or of an answer that refused the credentials. */
export interface PauseRow {
  readonly target: string
  readonly paused_at: number | null
  readonly paused_by: string | null
  readonly pause_reason: string | null
}
