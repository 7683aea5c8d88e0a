// What happens next with one request, and why, told from what is stored alone: nothing is asked, written or called. What a lookup
// would say is a dry run's to tell.
import type { SteadyTime } from '../core/clock.ts'
import { NO_POLICY, type TargetPolicy } from '../core/policy.ts'
import { sayReason } from '../core/reasons.ts'
import { isQueued, type TaskState } from '../core/task-state.ts'
import { replayWindow, type WindowClock, windowClockOf } from '../core/windows.ts'
import type { HeadOfKey, RequestDetail, StoredRequest, TimedPause } from '../store/views.ts'
import type { TargetRegistry } from '../target/target.ts'
import { policyOfDoubt, timesOfDoubt } from './policy-of-doubt.ts'

/** What happens next with a request. Instants are UTC epoch ms. */
export interface Outlook {
  /** Who acts: a worker by itself, a person, or nobody. */
  readonly by: 'worker' | 'person' | 'nobody'
  /**
   * `wait` is for a lease, and leads to the ladder: `lookup`, `replay`, `hold`; `ask` is for what became of its task; `turn`: another
   * of its ordering key goes first.
   */
  readonly step: 'call' | 'turn' | 'wait' | 'lookup' | 'replay' | 'hold' | 'cancel' | 'ask' | 'resume' | 'word' | 'none'
  /** Not before then; null: as soon as somebody acts. */
  readonly at: number | null
  /** For people. */
  readonly why: string
  /** Until when it can be replayed under its key; null where it cannot, or always can. */
  readonly windowClosesAt: number | null
  /** When doubt ends `held`, whatever was found. */
  readonly deadlineAt: number | null
}

/** Everything that is known of one request, and what happens next with it. */
export interface RequestStory extends RequestDetail {
  readonly outlook: Outlook
}

export interface OutlookOptions {
  readonly registry: TargetRegistry
  readonly now: () => number
  readonly steady: SteadyTime
}

export function createOutlook({ registry, now, steady }: OutlookOptions) {
  return function withOutlook({ description, highWaterAt, clockAheadMs, ...detail }: StoredRequest): RequestStory {
    const clock = windowClockOf(now(), steady, { clockAheadMs, highWaterAt })
    return { ...detail, outlook: outlookOf(detail, description, clock) }
  }

  function outlookOf(detail: RequestDetail, description: string | null, clock: WindowClock): Outlook {
    const { state, target, taskState: row } = detail
    const isKnown = registry.get(target) !== undefined
    if (isQueued(state)) return queued(detail, isKnown, clock.wall)
    if (row === null || (state !== 'invoking' && state !== 'unknown')) return settled(detail)
    if (!isKnown)
      return told('person', 'word', null, `the config names no target "${target}": put it back, or resolve the request`)
    return inDoubt(detail, row, policyOfDoubt(registry, { row, description }) ?? NO_POLICY, clock)
  }
}

function told(by: Outlook['by'], step: Outlook['step'], at: number | null, why: string): Outlook {
  return { by, step, at, why, windowClosesAt: null, deadlineAt: null }
}

function queued(detail: RequestDetail, isKnown: boolean, now: number): Outlook {
  const { target, pause, waits, dueAt, expiresAt, state, reason, behind } = detail
  if (!isKnown)
    return told('person', 'word', null, `the config names no target "${target}": put it back, or cancel the request`)
  if (pause !== null) {
    const why = pause.reason === null ? '' : `: ${pause.reason}`
    return told('person', 'resume', null, `its target is paused by ${pause.by ?? 'nobody known'}${why}`)
  }
  if (behind !== null) return turn(behind, state === 'scheduled' ? dueAt : null)
  const until = expiresAt === null ? '' : `, before ${new Date(expiresAt).toISOString()} or not at all`
  const wait = lastWait(waits, now)
  if (wait !== null && wait.until > (dueAt ?? 0)) return told('worker', 'call', wait.until, `${sayWait(wait)}${until}`)
  if (state !== 'scheduled')
    return told('worker', 'call', null, `it is called by the next worker that has a free slot${until}`)
  const why = reason === 'parked' ? sayReason(reason) : 'it is called when it is due'
  return told('worker', 'call', dueAt, `${why}${until}`)
}

/** A head that only a person moves makes all behind it wait for that person. */
function turn({ requestId, state, reason }: HeadOfKey, dueAt: number | null): Outlook {
  const by = state === 'held' || state === 'dead' ? 'person' : 'worker'
  const why = reason === null ? '' : `: ${sayReason(reason)}`
  return told(by, 'turn', dueAt, `request ${requestId} of its ordering key goes first; it is ${state}${why}`)
}

function sayWait({ cause, scope, toldBy }: TimedPause): string {
  if (cause === 'breaker') return `the breaker of its target is open: its calls failed (${toldBy})`
  return `the API told its ${scope} to wait (${toldBy})`
}

/** Of the pauses that last, the one that ends last. */
export function lastWait(waits: readonly TimedPause[], now: number): TimedPause | null {
  const lasting = waits.filter(({ until }) => until > now)
  return lasting.reduce<TimedPause | null>(
    (last, wait) => (last !== null && last.until >= wait.until ? last : wait),
    null,
  )
}

function settled({ state, reason, taskState }: RequestDetail): Outlook {
  if (state === 'held') return told('person', 'word', null, sayReason(reason ?? ''))
  if (state === 'dead')
    return reason === 'abandoned'
      ? told('nobody', 'none', null, 'it was given up in doubt; only "purge --abandoned" removes it')
      : told('person', 'word', null, sayReason(reason ?? ''))
  const next = taskState?.nextCheckAt ?? null
  if (state === 'submitted' && next !== null)
    return told('worker', 'ask', next, 'the API is asked what became of its task')
  return told('nobody', 'none', null, 'it has ended')
}

function inDoubt(detail: RequestDetail, row: TaskState, policy: TargetPolicy, clock: WindowClock): Outlook {
  const ladder = policy.recovery.join(', ')
  const times = timesOfDoubt(row, policy)
  const holder = row.leaseOwner ?? 'nobody'
  const isLeased = row.leaseUntil !== null && row.leaseUntil > clock.wall
  if (row.state === 'invoking') {
    const why = isLeased
      ? `${holder} is calling; if it died, recovery climbs the ladder from then: ${ladder}`
      : `the lease of ${holder} is over: the next worker, or "onceish recover", climbs the ladder: ${ladder}`
    return { ...told('worker', 'wait', row.leaseUntil, why), ...times }
  }
  if (isLeased) return { ...told('worker', 'wait', row.leaseUntil, `${holder} is looking into it`), ...times }
  const { step, at, why } = firstRung(row, policy, clock)
  const paused =
    detail.pause !== null && step === 'replay' ? '; its target is paused, so it waits for "onceish resume"' : ''
  const wait = step === 'replay' ? lastWait(detail.waits, clock.wall) : null
  const waits = wait === null ? '' : `; ${sayWait(wait)}`
  const ahead = detail.behind?.requestId
  const inLine =
    ahead !== undefined && step === 'replay' ? `; request ${ahead} of its ordering key goes first, so it waits` : ''
  const because = row.reason === null ? '' : `${sayReason(row.reason)}; `
  const until = latest(latest(row.nextCheckAt, at), wait?.until ?? null)
  return { ...told('worker', step, until, `${because}${why}${paused}${waits}${inLine}`), ...times }
}

function latest(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.max(one, other)
}

type Rung = Pick<Outlook, 'step' | 'at' | 'why'>

/** The first rung of the ladder that can be stood on. */
function firstRung(row: TaskState, policy: TargetPolicy, clock: WindowClock): Rung {
  if (row.cancelRequested && row.taskId !== null)
    return { step: 'cancel', at: null, why: 'its task is canceled at the API' }
  for (const rung of policy.recovery) {
    if (rung === 'lookup' && policy.lookup !== null)
      return { step: 'lookup', at: null, why: 'the API is asked whether it happened' }
    if (rung === 'replay') {
      const step = replay(row, policy, clock)
      if (step !== null) return step
    }
  }
  return { step: 'hold', at: null, why: 'it is held for a person' }
}

function replay(row: TaskState, policy: TargetPolicy, clock: WindowClock): Rung | null {
  if (policy.key === null || row.cancelRequested || row.replays >= policy.key.maxReplays) return null
  const window = replayWindow(row, policy, clock)
  if (window.kind === 'open')
    return { step: 'replay', at: null, why: 'the same bytes are sent again, under the same key' }
  return window.kind === 'wait' ? { step: 'replay', at: window.until, why: sayReason('clock_behind') } : null
}
