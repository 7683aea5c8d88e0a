// Lookups and trackings: asked outside any transaction, and what they found is kept here until a turn has recorded it.
// Some more questions than run at once stand in line, so that the next begins when one ends and a turn records many.
import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import { isCall, type Reconciliation } from '../core/reconciliation.ts'
import type { Tracking } from '../core/tracking.ts'
import type { SettledRow } from '../store/turn.ts'
import type { AbortLike } from '../target/target.ts'
import { type CallAbort, createCallAbort } from './call-abort.ts'

/** What one turn is to record; what it turned away, or nobody had a slot for, stays. */
export interface Findings {
  /** Those that a limit turned away before come first. */
  readonly reconciliations: readonly Reconciliation[]
  readonly trackings: readonly Tracking[]
}

export interface Checks {
  /** Asks `target` about a row in doubt. */
  reconcile(target: string, ask: (signal: AbortLike) => Promise<Reconciliation>): void
  /** Asks `target` about a submitted task. */
  track(target: string, ask: (signal: AbortLike) => Promise<Tracking>): void
  /** @param callSlots how many verdicts may lead to a call; null: none that a limit turned away is offered again either. */
  findings(callSlots: number | null): Findings
  /** A commit has recorded them: the rows are the turn's, in their order. */
  recorded(findings: Findings, rows: readonly SettledRow[]): void
  /** There is something that a turn should record now. */
  hasNews(callSlots: number | null): boolean
  /** Questions that run or stand in line, and findings that wait. */
  readonly size: number
  /** Questions to `target` that run or stand in line. */
  openTo(target: string): number
  abort(): void
}

export interface ChecksOptions {
  readonly clock: Clock
  readonly log: Log
  /** How many questions run at once. */
  readonly limit: () => number
  /** How long a row is ours to ask about. */
  readonly leaseMs: number
  /** Called when a turn should record something. */
  readonly onNews: () => void
}

interface Question {
  readonly target: string
  readonly since: number
  readonly begin: (signal: AbortLike) => Promise<void>
}

const LIMITED_RETRY_MS = 250
const RECORD_WITHIN_MS = 100

export function createChecks({ clock, log, limit, leaseMs, onNews }: ChecksOptions): Checks {
  const running = new Map<CallAbort, Question>()
  let line: Question[] = []
  /** What leads to no call: it is recorded by and by. */
  let words: Reconciliation[] = []
  /** Verdicts that wait for a free slot. */
  let calls: Reconciliation[] = []
  /** Verdicts that a limit turned away: they go first in whatever turn comes next, at the latest after `LIMITED_RETRY_MS`. */
  let limited: readonly Reconciliation[] = []
  let limitedUntil = 0
  let trackings: Tracking[] = []
  /** When the first finding came that no turn has recorded. */
  let waitingSince: number | null = null

  function ask<T>(target: string, question: (signal: AbortLike) => Promise<T>, keep: (found: T) => void): void {
    const begin = async (signal: AbortLike) => {
      try {
        const found = await question(signal)
        if (!signal.aborted) keep(found)
      } catch (error) {
        if (signal.aborted) return
        log.error({ err: error }, 'a check broke off: its row is looked into again when its lease is over')
      }
    }
    line.push({ target, since: clock.monotonicNow(), begin })
    beginNext()
  }

  function beginNext(): void {
    while (line.length > 0 && running.size < limit()) {
      const question = line.shift() as Question
      // Whose lease ran out in line is due again, and somebody else's as soon as ours.
      if (clock.monotonicNow() - question.since >= leaseMs) continue
      const abort = createCallAbort()
      running.set(abort, question)
      void question.begin(abort.signal).then(() => {
        running.delete(abort)
        waitingSince ??= clock.monotonicNow()
        beginNext()
        if (line.length === 0 || calls.length > 0 || isOverdue()) onNews()
      })
    }
  }

  function isOverdue(): boolean {
    return waitingSince !== null && clock.monotonicNow() - waitingSince >= RECORD_WITHIN_MS
  }

  return {
    reconcile: (target, question) =>
      ask(target, question, (found) => {
        // Its lease ran out while a limit turned it away, and it was looked into again.
        limited = limited.filter(({ requestId }) => requestId !== found.requestId)
        if (isCall(found.verdict)) calls.push(found)
        else words.push(found)
      }),
    track: (target, question) =>
      ask(target, question, (found) => {
        trackings.push(found)
      }),
    findings: (callSlots) => ({
      reconciliations: [
        ...(callSlots !== null && callSlots > 0 ? limited : []),
        ...words,
        ...calls.slice(0, Math.max(0, callSlots ?? 0)),
      ],
      trackings: trackings.slice(),
    }),
    recorded: ({ reconciliations, trackings: told }, rows) => {
      const isTaken = new Set(reconciliations)
      const isLeft = (verdict: Reconciliation) => !isTaken.has(verdict)
      limited = [...turnedAway(reconciliations, rows), ...limited.filter(isLeft)]
      limitedUntil = clock.monotonicNow() + LIMITED_RETRY_MS
      words = words.filter(isLeft)
      calls = calls.filter(isLeft)
      trackings = trackings.slice(told.length)
      waitingSince = null
    },
    hasNews: (callSlots) => {
      if (callSlots !== null && callSlots > 0 && calls.length > 0) return true
      if (callSlots !== null && limited.length > 0 && clock.monotonicNow() >= limitedUntil) return true
      return words.length + trackings.length > 0 && (line.length === 0 || callSlots === null || isOverdue())
    },
    get size() {
      return running.size + line.length + words.length + calls.length + limited.length + trackings.length
    },
    openTo: (target) => {
      let count = 0
      for (const question of [...running.values(), ...line]) if (question.target === target) count++
      return count
    },
    abort: () => {
      line = []
      for (const abort of running.keys()) abort.abort(new Error('the worker ended'))
    },
  }
}

function turnedAway(offered: readonly Reconciliation[], rows: readonly SettledRow[]): Reconciliation[] {
  return offered.filter((_, i) => rows[i]?.applied === false && rows[i]?.reason === 'limited')
}
