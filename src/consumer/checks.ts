// Lookups and trackings: asked outside any transaction, and what they found is kept here until a turn has recorded it.
import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import type { Reconciliation } from '../core/reconciliation.ts'
import type { Tracking } from '../core/tracking.ts'
import type { SettledRow } from '../store/turn.ts'

/** What one turn is to record; what it turned away, or nobody had a slot for, stays. */
export interface Findings {
  /** Those that a limit turned away before come first. */
  readonly reconciliations: readonly Reconciliation[]
  readonly trackings: readonly Tracking[]
}

export interface Checks {
  /** Asks about a row in doubt. */
  reconcile(ask: (signal: AbortSignal) => Promise<Reconciliation>): void
  /** Asks about a submitted task. */
  track(ask: (signal: AbortSignal) => Promise<Tracking>): void
  /** @param callSlots how many verdicts may lead to a call; null: none that a limit turned away is offered again either. */
  findings(callSlots: number | null): Findings
  /** A commit has recorded them: the rows are the turn's, in their order. */
  recorded(findings: Findings, rows: readonly SettledRow[]): void
  /** There is something that a turn should record now. */
  hasNews(callSlots: number | null): boolean
  /** Questions that run, and findings that wait. */
  readonly size: number
  abort(): void
}

const LIMITED_RETRY_MS = 250

/** @param onEnd called when a question has come to its end. */
export function createChecks(clock: Clock, log: Log, onEnd: () => void): Checks {
  const running = new Set<AbortController>()
  let verdicts: readonly Reconciliation[] = []
  /** Verdicts that a limit turned away: they go first in whatever turn comes next, at the latest after `LIMITED_RETRY_MS`. */
  let limited: readonly Reconciliation[] = []
  let limitedUntil = 0
  let trackings: readonly Tracking[] = []

  function start<T>(ask: (signal: AbortSignal) => Promise<T>, keep: (found: T) => void): void {
    const abort = new AbortController()
    running.add(abort)
    const end = (): boolean => {
      running.delete(abort)
      onEnd()
      return !abort.signal.aborted
    }
    void ask(abort.signal).then(
      (found) => end() && keep(found),
      (error) =>
        end() && log.error({ err: error }, 'a check broke off: its row is looked into again when its lease is over'),
    )
  }

  /** A verdict that leads to a call waits for a free slot; the others never wait. */
  function ready(callSlots: number | null): readonly Reconciliation[] {
    let slots = callSlots ?? 0
    return verdicts.filter((verdict) => !isCall(verdict) || --slots >= 0)
  }

  return {
    reconcile: (ask) =>
      start(ask, (verdict) => {
        verdicts = [...verdicts, verdict]
      }),
    track: (ask) =>
      start(ask, (tracking) => {
        trackings = [...trackings, tracking]
      }),
    findings: (callSlots) => ({
      reconciliations: [...(callSlots !== null && callSlots > 0 ? limited : []), ...ready(callSlots)],
      trackings,
    }),
    recorded: ({ reconciliations, trackings: told }, rows) => {
      const isTaken = new Set(reconciliations)
      limited = [...turnedAway(reconciliations, rows), ...limited.filter((verdict) => !isTaken.has(verdict))]
      limitedUntil = clock.monotonicNow() + LIMITED_RETRY_MS
      verdicts = verdicts.filter((verdict) => !isTaken.has(verdict))
      trackings = trackings.slice(told.length)
    },
    hasNews: (callSlots) => {
      const isLimitOver = limited.length > 0 && callSlots !== null && clock.monotonicNow() >= limitedUntil
      return isLimitOver || trackings.length > 0 || ready(callSlots).length > 0
    },
    get size() {
      return running.size + verdicts.length + limited.length + trackings.length
    },
    abort: () => {
      for (const abort of running) abort.abort(new Error('the worker ended'))
    },
  }
}

function turnedAway(offered: readonly Reconciliation[], rows: readonly SettledRow[]): Reconciliation[] {
  return offered.filter((_, i) => rows[i]?.applied === false && rows[i]?.reason === 'limited')
}

function isCall({ verdict }: Reconciliation): boolean {
  return verdict.kind === 'replay' || verdict.kind === 'recall'
}
