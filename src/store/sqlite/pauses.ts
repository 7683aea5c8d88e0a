// What stops a target, as it is stored and as people are shown it: a person's pause, and pauses that end by themselves.
import { wasSetBack } from '../../core/clock.ts'
import type { WaitScope } from '../../core/policy.ts'
import type { PauseCause, TimedPause } from '../views.ts'
import { noteTargetEvent, type Word } from './events.ts'
import type { Statements } from './statements.ts'
import type { Turn } from './turn-context.ts'

export interface TimedPauseRow {
  readonly scope: WaitScope
  readonly name: string
  readonly cause: PauseCause
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

/** Nothing where it is paused already: whose pause it is stays. @returns false there. */
export function pauseTarget(sql: Statements, target: string, reason: string | null, word: Word): boolean {
  if (sql.pauseTarget.run(target, word.now, word.actor, reason).changes === 0) return false
  noteTargetEvent(sql, target, { kind: 'target_paused', reason }, word)
  return true
}

/** Ends whatever stops it; calls begin as after any wait, few at first. @returns false where nothing did. */
export function resumeTarget(sql: Statements, target: string, word: Word): boolean {
  const { now } = word
  const waits = sql.cutTimedPauses.run({ now, target }).changes + sql.deleteBreaker.run(target).changes
  const isResumed = sql.resumeTarget.run(target).changes + waits > 0
  if (!isResumed) return false
  sql.wakePaused.run({ now, target })
  noteTargetEvent(sql, target, { kind: 'target_resumed', reason: null }, word)
  return true
}

/** @returns those that hold calls back. Those whose ramp is over are removed; where the clock was set back, they begin anew. */
export function settlePauses({ sql, word, breakers }: Turn): readonly TimedPauseRow[] {
  const pauses = (sql.timedPauses.all() as TimedPauseRow[]).map((pause) => asOfNow(sql, pause, word.now))
  return pauses.filter(({ scope, name, cause, until, ramp_ms }) => {
    // An open breaker's has no end before it is closed.
    if (word.now < until + ramp_ms || (cause === 'breaker' && breakers.get(name)?.kind === 'open')) return true
    sql.endTimedPause.run(scope, name, cause)
    return false
  })
}

/** Where the clock has been set back behind its beginning, a pause begins anew: else it would last for as long as was lost. */
function asOfNow(sql: Statements, pause: TimedPauseRow, now: number): TimedPauseRow {
  if (!wasSetBack(pause.since, now)) return pause
  const moved = { ...pause, since: now, until: pause.until - (pause.since - now) }
  const { scope, name, cause, since, until } = moved
  sql.moveTimedPause.run({ scope, name, cause, since, until })
  return moved
}
