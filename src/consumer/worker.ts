// The loop: one transaction a turn, calls and lookups outside it. A turn runs because something happened: an answer came,
// a lookup ended, a slot is free and work is due, a lease needs renewal, another process committed. Between turns only the
// question whether another process committed is asked (pace.ts).
import { randomBytes } from 'node:crypto'
import { type Clock, type Instant, instantOf, type SteadyTime } from '../core/clock.ts'
import { hasCode } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Buckets } from '../core/policy.ts'
import type { Reconciliation } from '../core/reconciliation.ts'
import type { AttemptResult } from '../core/settlement.ts'
import type { Tracking } from '../core/tracking.ts'
import { refuseForeign } from '../store/origin.ts'
import type { Store } from '../store/store.ts'
import type { Claimable, Investigation, Preparation, TrackedTask, TurnResult, WorkerLife } from '../store/turn.ts'
import type { RequestEvent } from '../store/views.ts'
import type { AbortLike, TargetRegistry } from '../target/target.ts'
import { createAgenda } from './agenda.ts'
import { createAnswers } from './answers.ts'
import { createLogBound } from './bound-log.ts'
import { CHECKS_BESIDE_CALLS, createCheckRoom } from './check-room.ts'
import { createChecks } from './checks.ts'
import { createCounters, type WorkerCounters } from './counters.ts'
import { createPace } from './pace.ts'
import { plainEvents } from './plain-events.ts'
import { createRankingNews } from './ranking-news.ts'
import { createRunningCalls } from './running-calls.ts'
import { createSlots } from './slots.ts'
import { createStallWatch } from './stalls.ts'
import { createTally, type WorkerReport } from './tally.ts'
import { createToldAgain } from './told-again.ts'
import { createTrouble } from './trouble.ts'
import { createWake } from './wake.ts'

export interface WorkerOptions {
  readonly store: Store
  readonly registry: TargetRegistry
  /** Names of the targets that it serves. */
  readonly serves: readonly string[]
  /** What its attempts freeze, kept so that their doubt can be settled by it. */
  readonly descriptions: readonly {
    readonly name: string
    readonly version: string
    readonly description: string
    readonly bucket: string | undefined
  }[]
  /** Sizes of the buckets that targets share. */
  readonly buckets: Buckets
  readonly prepare: (request: Claimable) => Preparation
  /** Looks into one row in doubt; never rejects. Recovery gives it, so that the two services do not know each other. */
  readonly reconcile: (investigation: Investigation, asked: { readonly signal: AbortLike }) => Promise<Reconciliation>
  /** Asks for the state of one submitted task; never rejects. */
  readonly track: (task: TrackedTask, signal: AbortLike) => Promise<Tracking>
  readonly clock: Clock
  readonly steady: SteadyTime
  readonly log: Log
  readonly random: () => number
  readonly name: string
  readonly concurrency: number
  readonly leaseMs: number
  readonly graceMs: number
  /** False: only what is in doubt is worked on. */
  readonly claimsReady: boolean
  /** Ends by itself when nothing is owed within the horizon. */
  readonly drain: { readonly horizonMs: number } | null
  readonly onProgress?: ((report: WorkerReport) => void) | undefined
  /** Told after their commit of the requests whose submission was so plain that no event was written. */
  readonly onPlain?: ((submitted: () => readonly RequestEvent[]) => void) | undefined
}

/** A running worker: `startWorker` and `startRecovery` give it. */
export interface Worker {
  /** Resolves when it has stopped; rejects on a broken store or invariant. */
  readonly done: Promise<WorkerReport>
  /** Claims no more, waits for its calls up to `graceMs`, ends the rest, records what is known, then stops. */
  stop(): Promise<WorkerReport>
  /** So far. */
  report(): WorkerReport
  /** What went wrong around it so far, for metrics. */
  counters(): WorkerCounters
}

const SPILL_SCAN_MS = 30_000
const CHECKS_IN_LINE = 64
const SAVE_WITHIN_MS = 500
/** Of answers and of claims in one turn, so that neither the event loop nor the lock is held for long: about 4 ms. */
const MOST_A_TURN = 64

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
    counters: loop.counters,
  }
}

function createLoop(options: WorkerOptions) {
  const { store, registry, serves, clock, log, concurrency, leaseMs } = options
  const life: WorkerLife = { name: options.name, boot: randomBytes(6).toString('hex') }
  const policyOf = (target: string) => registry.get(target)?.policy
  const claimTargets = serves.flatMap((name) => {
    const policy = policyOf(name)
    return policy === undefined ? [] : [{ name, policy }]
  })
  const wake = createWake(clock)
  const pace = createPace(clock)
  const checks = createChecks({ clock, log, limit: checksAtOnce, leaseMs, onNews: () => wake.signal() })
  const roomOfChecks = createCheckRoom({ targets: claimTargets, buckets: options.buckets, openTo: checks.openTo })
  const counters = createCounters()
  const slots = createSlots(clock, concurrency)
  const running = createRunningCalls({ registry, clock, leaseMs, counters, slots, onResult: keepAnswer })
  const toldAgain = createToldAgain({ clock, targets: claimTargets, buckets: options.buckets })
  const tally = createTally(log, counters, toldAgain)
  const ranking = createRankingNews({ store, log, targets: claimTargets, actor: `worker:${options.name}` })
  const trouble = createTrouble(log, counters)
  const stalls = createStallWatch({ clock, limitMs: leaseMs / 4, log, counters })
  const startedAt = clock.wallNow()
  const boundLog = createLogBound(store, clock, log)
  const agenda = createAgenda(options.claimsReady)
  const changedElsewhere = store.watchChanges(serves)
  let answers = createAnswers({ place: null, isKnown: () => false, log, counters })
  let spillScanAt = 0
  /** Of the turn that was tried last and threw: what is to be done where it turns out to have happened. */
  let concludeLast: ((result: TurnResult) => void) | null = null
  let stopping: { readonly deadline: number; aborted: boolean } | null = null
  let hasBegun = false
  let hasEnded = false

  async function run(): Promise<WorkerReport> {
    const stopListening = store.onWork(noteWork)
    try {
      const { folderPath, incarnation, location } = await store.facts()
      refuseForeign(await store.origin(), location)
      const place = folderPath === null ? null : { storePath: folderPath, incarnation, boot: life.boot }
      answers = createAnswers({ place, isKnown: (target) => policyOf(target) !== undefined, log, counters })
      await Promise.all(serves.map((name) => registry.get(name)?.open?.()))
      await describeTargets()
      for (;;) {
        stalls.noteRound()
        takeOverSpills()
        await bearing(boundLog, undefined)
        endGrace()
        if (mustGiveUp()) break
        if (shouldTurn()) {
          // What arrived together, or meanwhile, is settled together.
          await new Promise<void>((resolve) => setImmediate(resolve))
          await tryTurn()
        } else if (await bearing(isFinished, false)) {
          break
        } else {
          await bearing(rest, undefined)
        }
      }
      // Only tidy: the leases of lookups end by themselves.
      if (!trouble.isOn) await bearing(() => store.releaseChecks(life, clock.wallNow()), undefined)
      return tally.report()
    } catch (error) {
      await saveAnswers()
      throw error
    } finally {
      hasEnded = true
      stopListening()
      checks.abort()
      running.abort('the worker ended')
    }
  }

  /** Nothing is called whose description is not kept. */
  async function describeTargets(): Promise<void> {
    const save = async () => {
      await store.saveDescriptions(options.descriptions, clock.wallNow())
      if (options.claimsReady) await ranking.say(clock.wallNow())
      return true
    }
    while (stopping === null && !(await bearing(save, false)));
    hasBegun = true
  }

  function noteWork(): void {
    agenda.note()
    wake.signal()
  }

  /** For verdicts that lead to a call; null: the worker is stopping. */
  function callSlots(): number | null {
    return stopping === null ? slots.free() : null
  }

  /** Questions take the slots that calls leave free, and no call waits for one. */
  function checksAtOnce(): number {
    return Math.max(Math.min(CHECKS_BESIDE_CALLS, concurrency), slots.free())
  }

  function freeChecks(): number {
    return checksAtOnce() - checks.size
  }

  function isFull(): boolean {
    return slots.free() <= 0 && freeChecks() <= 0
  }

  /** What was answered goes first where the store may not take both; with nothing to settle, a claim is what shows that it can. */
  function takesWork(): boolean {
    return stopping === null && (!trouble.isOn || answers.waiting.length === 0)
  }

  function shouldTurn(): boolean {
    const hasNews = answers.waiting.length > 0 || checks.hasNews(callSlots()) || options.steady.isNews()
    if (trouble.isOn || hasNews || running.renewalDueInMs() <= 0) return true
    if (!takesWork() || isFull()) return false
    return agenda.isDue(clock.wallNow(), slots.free() > 0)
  }

  /** Answers that come after the worker has ended are those of code that outlived it: whoever works next takes them over. */
  function keepAnswer(result: AttemptResult): void {
    answers.add(result)
    if (hasEnded) answers.spill()
    wake.signal()
  }

  async function rest(): Promise<void> {
    const lookMs = pace.nextLookMs()
    const untilDue = (takesWork() ? agenda.untilDueMs(clock.wallNow()) : null) ?? lookMs
    const restMs = Math.max(1, Math.min(lookMs, untilDue, running.renewalDueInMs(), slots.nextFreeInMs()))
    stalls.expectWithin(restMs)
    await wake.wait(restMs)
    // A server that is slow to answer is no process that stood still.
    stalls.noteRound()
    if (!takesWork() || isFull()) return
    const change = await changedElsewhere(clock.wallNow())
    if (change !== null) agenda.hear(change)
  }

  async function isFinished(): Promise<boolean> {
    if (running.size > 0 || answers.waiting.length > 0) return false
    if (stopping !== null) return true
    const { drain, claimsReady } = options
    if (drain === null || checks.size > 0) return false
    // Recovery ends with what was in doubt when it began: calls that others begin meanwhile are theirs.
    const claimedBefore = claimsReady ? Number.MAX_SAFE_INTEGER : startedAt
    const { queued, inDoubt } = await store.drainStatus(serves, clock.wallNow() + drain.horizonMs, claimedBefore)
    return !inDoubt && !(queued && claimsReady)
  }

  function endGrace(): void {
    if (stopping === null || stopping.aborted || clock.monotonicNow() < stopping.deadline) return
    stopping.aborted = true
    if (running.size > 0) log.warn({ calls: running.size }, 'the grace is over: ending the calls in flight')
    running.abort('the worker is stopping')
  }

  /** A store that takes no writes must not keep a worker from ending: what it knows is on disk, or the log says so. */
  function mustGiveUp(): boolean {
    if (stopping === null || !stopping.aborted || !trouble.isOn || running.size > 0) return false
    answers.spill()
    const unsafe = answers.isSafe() ? 0 : answers.waiting.length
    log.error({ answers: answers.waiting.length, unsafe }, 'ending while the store takes no writes')
    return true
  }

  async function tryTurn(): Promise<void> {
    const isWhole = stopping !== null || takesWork()
    counters.turns++
    pace.noteWork()
    const isDone = await bearing(async () => {
      await turn()
      return true
    }, false)
    if (!isDone) agenda.note()
    else if (isWhole) trouble.end()
  }

  /** What is not the machine's trouble ends the worker; so does a file that it may not write from the start. */
  async function bearing<T>(work: () => Promise<T>, otherwise: T): Promise<T> {
    try {
      return await work()
    } catch (error) {
      const isRefused = !hasBegun && hasCode(error, 'STORE_UNWRITABLE', 'STORE_NOT_FOUND')
      const waitMs = isRefused ? null : trouble.bear(error, answers.waiting.length)
      if (waitMs === null) throw error
      await backOff(waitMs)
      return otherwise
    }
  }

  /** Answers that come meanwhile are kept, on disk if it can be; they are no reason to try sooner, the end of the grace is. */
  async function backOff(ms: number): Promise<void> {
    const until = clock.monotonicNow() + ms
    const wasStopping = stopping
    for (;;) {
      answers.spill()
      const graceMs = stopping === null || stopping.aborted ? ms : stopping.deadline - clock.monotonicNow()
      const leftMs = Math.min(until - clock.monotonicNow(), graceMs)
      if (leftMs <= 0 || stopping !== wasStopping) return
      stalls.expectWithin(leftMs)
      await wake.wait(leftMs)
    }
  }

  /** The worker ends by an error: its calls are ended, and what they and others were answered goes to disk. */
  async function saveAnswers(): Promise<void> {
    running.abort('the worker broke off')
    const until = clock.monotonicNow() + SAVE_WITHIN_MS
    while (running.size > 0 && clock.monotonicNow() < until) await wake.wait(SAVE_WITHIN_MS)
    answers.spill()
  }

  /** A turn whose commit was not answered is known before the next begins: its calls are made once, or never. */
  async function turn(): Promise<void> {
    if (concludeLast !== null) {
      const made = await store.turnInDoubt(life)
      if (made !== null) concludeLast(made)
      concludeLast = null
    }
    await nextTurn()
  }

  async function nextTurn(): Promise<void> {
    const results = answers.waiting.slice(0, MOST_A_TURN)
    const findings = checks.findings(callSlots())
    const renewals = running.dueForRenewal()
    const claimSlots = takesWork() && options.claimsReady ? Math.min(MOST_A_TURN, Math.max(0, slots.free())) : 0
    const answered = findings.reconciliations.length + findings.trackings.length
    // What this turn records no longer takes a slot, and as many will be answered until the next: those stand in line.
    const checkSlots = freeChecks() + answered + Math.min(answered, CHECKS_IN_LINE)
    let grantedAt: Instant = instantOf(clock)
    const claims = claimSlots > 0
    agenda.begin({ claims })
    // What did not come to its end before may not have looked at everything.
    if (trouble.isOn) agenda.note()
    concludeLast = conclude
    const result = await store.turn({
      now: () => {
        grantedAt = instantOf(clock)
        return grantedAt.wall
      },
      steady: options.steady,
      worker: life,
      leaseMs,
      results,
      renewals: renewals.map(({ call }) => call),
      ...findings,
      claim: {
        slots: claimSlots,
        targets: claimTargets,
        buckets: options.buckets,
        standingOf: slots.standingOf,
        lookFrom: agenda.lookFrom,
        prepare: options.prepare,
      },
      check: { slots: takesWork() ? Math.max(0, checkSlots) : 0, room: roomOfChecks() },
      policyOf,
      random: options.random,
    })
    concludeLast = null
    stalls.expectWithin(0)
    conclude(result)

    function conclude(result: TurnResult): void {
      // The commit stands: only now is what it settled forgotten here.
      answers.settled(results.length)
      checks.recorded(findings, result.reconciled)
      agenda.end(result, { claims })
      for (const { lease } of renewals) lease.renewed(grantedAt)
      running.lose(result.lost)
      tally.note(result)
      ranking.hear(result.agingMs)
      for (const call of result.calls) running.start(call, grantedAt)
      for (const investigation of result.investigations) {
        checks.reconcile(investigation.row.target, (signal) => options.reconcile(investigation, { signal }))
      }
      for (const task of result.toTrack) {
        checks.track(task.row.target, (signal) => options.track(task, signal))
      }
      options.onPlain?.(() => plainEvents(results, result.settled, `worker:${options.name}`))
      options.onProgress?.(tally.report())
    }
  }

  function takeOverSpills(): void {
    if (clock.monotonicNow() < spillScanAt) return
    spillScanAt = clock.monotonicNow() + SPILL_SCAN_MS
    answers.takeOver()
  }

  function stop(): void {
    if (stopping !== null) return
    stopping = { deadline: clock.monotonicNow() + options.graceMs, aborted: false }
    wake.signal()
  }

  return { run, stop, report: tally.report, counters: () => ({ ...counters }) }
}
