// The loop: one transaction a turn, calls and lookups outside it. A turn runs because something happened: an answer came,
// a lookup ended, a slot is free and work is due, a lease needs renewal, another process committed. Never just by a timer.
import { randomBytes } from 'node:crypto'
import { type Clock, type Instant, instantOf } from '../core/clock.ts'
import { hasCode } from '../core/errors.ts'
import { MAX_TIMER_MS } from '../core/limits.ts'
import type { Log } from '../core/log.ts'
import type { TargetPolicy } from '../core/policy.ts'
import type { Reconciliation } from '../core/reconciliation.ts'
import type { AttemptResult } from '../core/settlement.ts'
import type { Tracking } from '../core/tracking.ts'
import type {
  Claimable,
  ClaimedCall,
  Investigation,
  Preparation,
  Store,
  TrackedTask,
  WorkerLife,
} from '../store/store.ts'
import type { Target } from '../target/target.ts'
import { makeAttempt } from './attempt.ts'
import { type HeldLease, holdLease } from './lease.ts'
import { createSpill, readSpills, removeSpill, type SpilledFile } from './spill.ts'
import { createTally, type WorkerReport } from './tally.ts'
import { createWake } from './wake.ts'

/** Looks into one row in doubt; never rejects. Recovery gives it, so that the two services do not know each other. */
export type Reconcile = (investigation: Investigation, signal: AbortSignal) => Promise<Reconciliation>

/** Asks for the state of one submitted task; never rejects. */
type Track = (task: TrackedTask, signal: AbortSignal) => Promise<Tracking>

export interface WorkerOptions {
  readonly store: Store
  /** What this worker serves. */
  readonly targets: readonly Target[]
  /** The target as described at that version; undefined where nobody can say. */
  readonly targetAt: (name: string, version: string) => Target | undefined
  readonly prepare: (request: Claimable) => Preparation
  readonly reconcile: Reconcile
  readonly track: Track
  readonly clock: Clock
  readonly log: Log
  readonly name: string
  readonly concurrency: number
  readonly leaseMs: number
  readonly graceMs: number
  /** False: only what is in doubt is worked on. */
  readonly claimsReady: boolean
  /** Ends by itself when nothing is owed within the horizon. */
  readonly drain: { readonly horizonMs: number } | null
  readonly onProgress?: ((report: WorkerReport) => void) | undefined
}

export interface Worker {
  /** Resolves when it has stopped; rejects on a broken store or invariant. */
  readonly done: Promise<WorkerReport>
  /** Claims no more, waits for its calls up to `graceMs`, ends the rest, records what is known, then stops. */
  stop(): Promise<WorkerReport>
  report(): WorkerReport
}

interface RunningCall {
  readonly call: ClaimedCall
  readonly lease: HeldLease
  readonly abort: AbortController
}

// How soon another process's commit is noticed. Reading `data_version` costs microseconds.
const POLL_MS = 25
const SPILL_SCAN_MS = 30_000
const MAX_LOOKUPS = 16
const MAX_TROUBLE_MS = 5000

export function startWorker(options: WorkerOptions): Worker {
  const loop = createLoop(options)
  const done = loop.run()
  done.catch(() => {}) // whoever awaits `done` or `stop` is told; an unhandled rejection would end the process first
  return {
    done,
    stop: () => {
      loop.stop()
      return done
    },
    report: loop.report,
  }
}

function createLoop(options: WorkerOptions) {
  const { store, clock, log, concurrency, leaseMs } = options
  const life: WorkerLife = { name: options.name, boot: randomBytes(6).toString('hex') }
  const names = options.targets.map((target) => target.name)
  const claimTargets = options.targets.map(({ name, policy }) => ({ name, policy }))
  const trackedNames = claimTargets.filter(({ policy }) => policy.tracking !== null).map(({ name }) => name)
  const policies = new Map<string, TargetPolicy>(claimTargets.map(({ name, policy }) => [name, policy]))
  const wake = createWake()
  const running = new Map<string, RunningCall>()
  const lookups = new Set<AbortController>()
  const tally = createTally(log)
  const startedAt: Instant = instantOf(clock)
  let answers: AttemptResult[] = []
  let verdicts: Reconciliation[] = []
  let trackings: Tracking[] = []
  let spilled: SpilledFile[] = []
  let spillScanAt = 0
  let spilledAnswers = 0
  let mayHaveWork = true
  let nextDueAt: number | null = null
  let stopping: { readonly deadline: number; aborted: boolean } | null = null
  let troubles = 0

  /** A clock set back does not shorten what this process has seen pass. */
  const latestNow = () => Math.max(clock.wallNow(), startedAt.wall + clock.monotonicNow() - startedAt.monotonic)

  async function run(): Promise<WorkerReport> {
    const stopListening = store.onWork(noteWork)
    const { location, incarnation } = await store.facts()
    const place = { storePath: location, incarnation, boot: life.boot }
    const spill = createSpill(place)
    try {
      for (;;) {
        scanSpills(place)
        if (shouldTurn()) {
          await tryTurn(spill)
          // Answers that arrived meanwhile join the next turn.
          await new Promise<void>((resolve) => setImmediate(resolve))
        } else if (await isFinished()) {
          break
        } else {
          await rest()
        }
      }
      if (lookups.size > 0 || stopping !== null) await store.releaseChecks(life, clock.wallNow())
      return tally.report()
    } finally {
      stopListening()
      for (const abort of lookups) abort.abort(new Error('the worker ended'))
      for (const { abort } of running.values()) abort.abort(new Error('the worker ended'))
    }
  }

  function noteWork(): void {
    mayHaveWork = true
    wake.signal()
  }

  function freeSlots(): number {
    return concurrency - running.size
  }

  function freeLookups(): number {
    return Math.min(MAX_LOOKUPS, concurrency) - lookups.size - verdicts.length - trackings.length
  }

  function takesWork(): boolean {
    return stopping === null && troubles === 0
  }

  function shouldTurn(): boolean {
    if (troubles > 0 || answers.length > 0 || trackings.length > 0 || usableVerdicts() > 0 || renewalDueInMs() <= 0)
      return true
    if (!takesWork() || (freeSlots() <= 0 && freeLookups() <= 0)) return false
    return mayHaveWork || (nextDueAt !== null && nextDueAt <= clock.wallNow())
  }

  function usableVerdicts(): number {
    if (stopping !== null) return verdicts.filter((one) => !isCall(one)).length
    return freeSlots() > 0 ? verdicts.length : verdicts.filter((one) => !isCall(one)).length
  }

  function renewalDueInMs(): number {
    let soonest = Number.POSITIVE_INFINITY
    for (const { lease } of running.values()) soonest = Math.min(soonest, lease.renewInMs())
    return soonest
  }

  /** Until something happens; another process is asked after every few milliseconds, at a few microseconds each. */
  async function rest(): Promise<void> {
    const untilDue = nextDueAt === null || !takesWork() ? MAX_TIMER_MS : nextDueAt - clock.wallNow()
    await wake.wait(Math.min(POLL_MS, MAX_TIMER_MS, Math.max(1, untilDue), Math.max(1, renewalDueInMs())))
    if (stopping !== null || freeSlots() <= 0) return
    const change = await store.changedElsewhere(names, clock.wallNow())
    if (change === null) return
    // What this process knows of may be earlier; a turn finds out.
    nextDueAt = Math.min(nextDueAt ?? Number.POSITIVE_INFINITY, change.nextDueAt ?? Number.POSITIVE_INFINITY)
    if (change.work) mayHaveWork = true
  }

  async function isFinished(): Promise<boolean> {
    if (running.size > 0 || answers.length > 0) return endGrace()
    if (stopping !== null) return true
    if (options.drain === null || lookups.size > 0 || verdicts.length > 0 || trackings.length > 0) return false
    const { queued, inDoubt } = await store.drainStatus(names, clock.wallNow() + options.drain.horizonMs)
    return !inDoubt && !(queued && options.claimsReady)
  }

  /** The grace is over: what was not written ends as not executed, what was written as unknown. */
  function endGrace(): false {
    if (stopping !== null && !stopping.aborted && clock.monotonicNow() >= stopping.deadline) {
      stopping.aborted = true
      log.warn({ calls: running.size }, 'grace is over: ending the calls in flight')
      for (const { abort } of running.values()) abort.abort(new Error('the worker is stopping'))
    }
    return false
  }

  async function tryTurn(spill: ReturnType<typeof createSpill>): Promise<void> {
    try {
      await turn()
      if (troubles > 0) log.info({ troubles }, 'the store takes writes again')
      troubles = 0
      if (spilledAnswers > 0) spill.clear()
      spilledAnswers = 0
      for (const file of spilled.splice(0)) removeSpill(file)
    } catch (error) {
      if (!hasCode(error, 'STORE_BUSY', 'STORE_FULL', 'STORE_UNWRITABLE')) throw error
      await bearTrouble(error, spill)
    }
  }

  /** Nothing is claimed while the store takes no writes; answers are kept in memory and, if it can be, on disk. */
  async function bearTrouble(error: unknown, spill: ReturnType<typeof createSpill>): Promise<void> {
    troubles++
    if (troubles === 1)
      log.error({ err: error, answers: answers.length }, 'the store takes no writes: claiming stops, answers are kept')
    if (answers.length > spilledAnswers && !hasCode(error, 'STORE_BUSY')) {
      try {
        spill.write(answers.slice(spilledAnswers))
        spilledAnswers = answers.length
      } catch (spillError) {
        log.error(
          { err: spillError, answers: answers.length },
          'the answers could not be spilled: they are only in memory',
        )
      }
    }
    await wake.wait(Math.min(MAX_TROUBLE_MS, 50 * 2 ** Math.min(troubles, 10)))
  }

  async function turn(): Promise<void> {
    const batch = answers
    const [taken, kept] = takeVerdicts()
    const renewals = [...running.values()].filter(({ lease }) => lease.renewInMs() <= 0)
    const calls = taken.filter(isCall).length
    const told = trackings
    const free = takesWork() ? Math.max(0, freeLookups()) : 0
    let grantedAt: Instant = instantOf(clock)
    const result = await store.turn({
      now: () => {
        grantedAt = instantOf(clock)
        return grantedAt.wall
      },
      latestNow,
      worker: life,
      leaseMs,
      results: batch,
      renewals: renewals.map(({ call }) => call),
      reconciliations: taken,
      trackings: told,
      claim: {
        slots: takesWork() && options.claimsReady ? Math.max(0, freeSlots() - calls) : 0,
        targets: claimTargets,
        prepare: options.prepare,
      },
      // Doubt goes first: what is left of the slots asks about tasks.
      investigate: { slots: free, targets: names },
      track: { slots: Math.floor(free / 2), targets: trackedNames },
      policyOf: (target) => policies.get(target),
      random: Math.random,
    })
    // The commit stands: only now is what it settled forgotten here.
    answers = answers.slice(batch.length)
    verdicts = kept.concat(verdicts.slice(taken.length + kept.length))
    trackings = trackings.slice(told.length)
    mayHaveWork = result.more || troubles > 0
    nextDueAt = result.nextDueAt
    for (const { lease } of renewals) lease.renewed(grantedAt)
    for (const gone of result.lost) running.get(keyOf(gone))?.lease.lost()
    tally.note(result)
    for (const call of result.calls) startCall(call, grantedAt)
    for (const investigation of result.investigations) investigate(investigation)
    for (const task of result.toTrack) track(task)
    options.onProgress?.(tally.report())
  }

  /** A verdict that leads to a call waits for a free slot; the others never wait. */
  function takeVerdicts(): [Reconciliation[], Reconciliation[]] {
    let slots = stopping === null ? freeSlots() : 0
    const taken: Reconciliation[] = []
    const kept: Reconciliation[] = []
    for (const verdict of verdicts) {
      if (isCall(verdict) && --slots < 0) kept.push(verdict)
      else taken.push(verdict)
    }
    return [taken, kept]
  }

  function startCall(call: ClaimedCall, grantedAt: Instant): void {
    const target = options.targetAt(call.target, call.targetVersion)
    const timeoutMs = target?.policy.timeoutMs ?? 0
    const lease = holdLease({ clock, grantedAt, leaseMs, timeoutMs })
    const abort = new AbortController()
    const key = keyOf(call)
    running.set(key, { call, lease, abort })
    tally.countCall()
    void makeAttempt(call, { target, lease, signal: abort.signal, wallNow: () => clock.wallNow() }).then((result) => {
      running.delete(key)
      answers.push(result)
      wake.signal()
    })
  }

  function investigate(investigation: Investigation): void {
    const abort = new AbortController()
    lookups.add(abort)
    void options.reconcile(investigation, abort.signal).then((verdict) => {
      lookups.delete(abort)
      if (abort.signal.aborted) return
      verdicts.push(verdict)
      wake.signal()
    })
  }

  function track(task: TrackedTask): void {
    const abort = new AbortController()
    lookups.add(abort)
    void options.track(task, abort.signal).then((tracking) => {
      lookups.delete(abort)
      if (abort.signal.aborted) return
      trackings.push(tracking)
      wake.signal()
    })
  }

  function scanSpills(place: Parameters<typeof readSpills>[0]): void {
    if (place.storePath.includes('://') || clock.monotonicNow() < spillScanAt) return
    spillScanAt = clock.monotonicNow() + SPILL_SCAN_MS
    if (spilled.length > 0) return
    spilled = readSpills(place)
    for (const file of spilled) {
      log.info(
        { file: file.path, answers: file.results.length, unreadable: file.unreadable },
        'reading back spilled answers',
      )
      answers.push(...file.results)
    }
  }

  function stop(): void {
    if (stopping !== null) return
    stopping = { deadline: clock.monotonicNow() + options.graceMs, aborted: false }
    wake.signal()
  }

  return { run, stop, report: tally.report }
}

function isCall(reconciliation: Reconciliation): boolean {
  return reconciliation.verdict.kind === 'replay' || reconciliation.verdict.kind === 'recall'
}

function keyOf(call: { requestId: number; attempt: number }): string {
  return `${call.requestId}:${call.attempt}`
}
