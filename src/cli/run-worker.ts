// Runs a worker (or a recovery) to its end or to a signal, then says what it did and what needs a person.
import { setFlagsFromString } from 'node:v8'
import { targetNames } from '../config/config.ts'
import type { WorkerCounters } from '../consumer/counters.ts'
import type { WorkerReport } from '../consumer/tally.ts'
import type { Worker } from '../consumer/worker.ts'
import { REQUEST_STATES, type RequestState } from '../core/task-state.ts'
import type { StoreStatus } from '../store/views.ts'
import { attentionLines, attentionOf, needsPerson } from './attention.ts'
import type { Context } from './context.ts'
import { EXIT } from './exit-codes.ts'
import { duration, plural, print, printJson, table } from './print.ts'
import { type Progress, startProgress } from './progress.ts'

export interface RunOptions {
  readonly served: readonly string[]
  /** The targets were named: the rest of the store is not spoken of. */
  readonly isPart: boolean
  /** It ends by itself: a bar shows how far it is. */
  readonly ends: boolean
  readonly start: (onProgress: (report: WorkerReport) => void) => Worker
}

/**
 * V8 lets the heap grow to four times what lives in it before it collects what has grown old there: here nearly all of that is
 * calls that have ended. At twice, a worker of sixty thousand requests took a quarter less memory.
 */
const HEAP_GROWTH = '--heap-growing-percent=100'

type States = Partial<Record<RequestState, number>>

export async function runWorker(context: Context, options: RunOptions): Promise<void> {
  setFlagsFromString(HEAP_GROWTH)
  const { once, isJson } = context
  const startedAt = performance.now()
  const signals = listenForSignals()
  const before = servedStates(await once.status(), options.served)
  const owed = options.ends ? owedRows(before) : 0
  if (!isJson) tellDoubt(before, context.config.worker.leaseMs)
  const progress = options.ends
    ? startProgress({ isJson, format: '{bar} {value}/{total} requests{note}', total: owed })
    : null
  try {
    const worker = options.start((report) => progress && showProgress(progress, report, owed))
    signals.onFirst(() => {
      const grace = duration(context.config.worker.graceMs)
      if (!isJson) tell(`stopping: the calls in flight may take up to ${grace}; a second signal ends at once`)
      void worker.stop().catch(() => {}) // `done` rejects with the same
    })
    const report = await worker.done
    progress?.stop()
    const status = await once.status()
    const ms = Math.round(performance.now() - startedAt)
    printReport(context, options, { report, counters: worker.counters(), status, ms })
    process.exitCode = signals.exitCode() ?? (options.ends ? attentionExit(context, options, status) : EXIT.done)
  } finally {
    progress?.stop()
    signals.release()
  }
}

/** Whoever starts a worker after a kill must not think that it hangs. */
function tellDoubt({ invoking = 0, unknown = 0 }: States, leaseMs: number): void {
  if (invoking > 0) {
    tell(
      `${plural(invoking, 'call')} of other workers out; those of one that died are looked into within ${duration(leaseMs)}`,
    )
  }
  if (unknown > 0) tell(`${plural(unknown, 'request')} in doubt: "onceish recover --dry-run" says what each waits for`)
}

function tell(line: string): void {
  process.stderr.write(`${line}\n`)
}

/** The first signal asks for a clean stop; the second ends the process at once. */
function listenForSignals() {
  let code: number | null = null
  let stop: (() => void) | null = null
  const hear = (signal: 'SIGINT' | 'SIGTERM') => {
    if (code !== null) process.exit(code)
    code = EXIT[signal]
    stop?.()
  }
  process.on('SIGINT', hear).on('SIGTERM', hear)
  return {
    onFirst: (action: () => void) => {
      stop = action
      if (code !== null) action()
    },
    exitCode: () => code,
    release: () => process.off('SIGINT', hear).off('SIGTERM', hear),
  }
}

function showProgress(progress: Progress, report: WorkerReport, owed: number): void {
  const { submitted = 0, dead = 0, held = 0, canceled = 0 } = report.settled
  const done = submitted + dead + held + canceled
  const note = held + dead > 0 ? `, ${held} held, ${dead} dead` : ''
  progress.update(done, Math.max(owed, done), note)
}

function servedStates(status: StoreStatus, served: readonly string[]): States {
  const states: States = {}
  for (const name of served) {
    for (const [state, count] of Object.entries(status.targets[name]?.states ?? {}) as [RequestState, number][]) {
      states[state] = (states[state] ?? 0) + count
    }
  }
  return states
}

function owedRows({ ready = 0, scheduled = 0, invoking = 0, unknown = 0 }: States): number {
  return ready + scheduled + invoking + unknown
}

function attention({ config }: Context, { served, isPart }: RunOptions, status: StoreStatus) {
  return attentionOf(status, targetNames(config), isPart ? served : null)
}

function attentionExit(context: Context, options: RunOptions, status: StoreStatus): number {
  return needsPerson(attention(context, options, status)) ? EXIT.needsPerson : EXIT.done
}

function printReport(
  context: Context,
  options: RunOptions,
  { report, counters, status, ms }: { report: WorkerReport; counters: WorkerCounters; status: StoreStatus; ms: number },
): void {
  const { calls, adopted, replayed, requeued, held } = report
  const states = servedStates(status, options.served)
  if (context.isJson) {
    const { stuck } = attention(context, options, status)
    printJson({ states, calls, adopted, replayed, requeued, held, stuck, ms, counters })
    return
  }
  print(
    table(
      ['state', 'requests'],
      REQUEST_STATES.flatMap((state) => (states[state] ? [[state, states[state]]] : [])),
    ),
  )
  print(
    '',
    `${calls} calls, ${adopted} adopted, ${replayed} replayed, ${requeued} called again after a settled miss, ${held} held; took ${took(ms)}`,
  )
  print(...attentionLines(attention(context, options, status), status, context.next))
}

function took(ms: number): string {
  return ms < 1000 ? duration(ms) : `${(ms / 1000).toFixed(1)}s`
}
