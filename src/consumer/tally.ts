// What one worker has done since its start, in numbers and log lines. It reads results and changes nothing.
import type { Log } from '../core/log.ts'
import { credentialsCure, sayReason } from '../core/reasons.ts'
import type { SettledRow, StopNews, TurnResult } from '../store/turn.ts'
import type { Counting } from './counters.ts'
import type { ToldAgain } from './told-again.ts'

/** What one worker has done since its start; all are counts. */
export interface WorkerReport {
  /** Submissions that were started, replays and re-calls included. */
  readonly calls: number
  /** Requests in doubt whose task a lookup found. */
  readonly adopted: number
  /** Requests in doubt that were sent again as they were, under their key. */
  readonly replayed: number
  /** Requests in doubt that were called again after settled misses. */
  readonly requeued: number
  /** Requests left to a person. */
  readonly held: number
  /** Ends by state since the start. */
  readonly settled: Readonly<Record<string, number>>
}

export interface Tally {
  note(result: TurnResult): void
  report(): WorkerReport
}

const STATE_WORDS: Readonly<Partial<Record<SettledRow['state'], string>>> = {
  queued: 'queued again',
  unknown: 'in doubt',
}

export function createTally(log: Log, counters: Counting, toldAgain: ToldAgain): Tally {
  const counts = { calls: 0, adopted: 0, replayed: 0, requeued: 0, held: 0, settled: {} as Record<string, number> }
  const countEnd = (state: string) => {
    counts.settled[state] = (counts.settled[state] ?? 0) + 1
  }

  function note(result: TurnResult): void {
    counters.leasesLost += result.lost.length
    counts.calls += result.calls.length
    for (const row of result.settled) noteSettled(row)
    for (const stop of result.stops) noteStop(stop)
    for (const row of result.reconciled) noteReconciled(row)
    for (const row of result.tracked) noteTracked(row)
  }

  function noteSettled(row: SettledRow): void {
    if (!row.applied) {
      counters.answersFenced++
      log.info(
        { requestId: row.requestId, attempt: row.attempt, outcome: row.outcome, why: row.reason },
        'a late answer changed nothing',
      )
      return
    }
    countEnd(row.state)
    if (row.state === 'held') counts.held++
    if (row.state === 'submitted') return
    tellState(row)
  }

  /** What only a person moves is told with the command to begin with. */
  function tellState(row: SettledRow): void {
    const { requestId, target, state, reason, outcome } = row
    const said = `request ${requestId} of ${target} is ${STATE_WORDS[state] ?? state}: ${sayReason(reason ?? outcome)}`
    if (state === 'held') log.warn({ ...row }, `${said}; look at it, and say what happened: onceish show ${requestId}`)
    else if (state === 'dead')
      log.warn({ ...row }, `${said}; where it is still wanted, mend the cause: onceish show ${requestId}`)
    else log.info({ ...row }, said)
  }

  /** Of a target that is left alone, people want to know why nothing goes on, who makes it go on, and that it does again. */
  function noteStop({ target, kind, why, until }: StopNews): void {
    const at = until === null ? '' : new Date(until).toISOString()
    const says = {
      breaker_opened: `the calls to ${target} fail (${why}): nobody calls it, and one probes at ${at}; it goes on once that succeeds, or by "onceish resume ${target}" when you have mended it sooner`,
      probe_failed: `a probe of ${target} failed too: the next goes at ${at}`,
      breaker_closed: `${target} answers again: calls begin slowly`,
      told_to_wait: `${target} told to wait (${why}): nobody calls it before ${at}`,
      paused: `${target} is paused (${why}): the API refused the credentials; ${credentialsCure(`"onceish resume ${target}"`)}`,
    }
    const isQuiet = kind === 'told_to_wait' && !toldAgain.isNews(target)
    log[isQuiet ? 'info' : 'warn']({ target, kind, until }, says[kind])
    const again = kind === 'told_to_wait' ? toldAgain.hear(target) : null
    if (again === null) return
    log.warn(
      { target, ...again },
      `${target} was told to wait ${again.times} times within ${Math.ceil(again.withinMs / 1000)} s, and each time calls begin again slowly: set its rate to about 80 % of what the API allows`,
    )
  }

  function noteReconciled(row: SettledRow): void {
    if (!row.applied) return
    if (row.outcome === 'adopt') counts.adopted++
    else if (row.state === 'held') counts.held++
    else if (row.state === 'invoking') counts[row.outcome === 'replay' ? 'replayed' : 'requeued']++
    if (row.state !== 'unknown') countEnd(row.state)
    if (row.state === 'held') tellState(row)
    else log.info({ ...row }, `request ${row.requestId} in doubt: ${row.outcome}`)
  }

  function noteTracked(row: SettledRow): void {
    if (!row.applied || row.state === 'submitted') return
    countEnd(row.state)
    const level = row.state === 'succeeded' ? 'info' : 'warn'
    log[level]({ ...row }, `the task of request ${row.requestId} is ${row.state}`)
  }

  return {
    note,
    report: () => ({ ...counts, settled: { ...counts.settled } }),
  }
}
