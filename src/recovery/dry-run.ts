// What recovery would do with each row in doubt, and why: lookups are asked, nothing is written and nothing is called.
import { sayReason } from '../core/reasons.ts'
import {
  decideReconciliation,
  isCall,
  type Reconciliation,
  type ReconciliationVerdict,
} from '../core/reconciliation.ts'
import type { TaskState } from '../core/task-state.ts'
import type { WindowClock } from '../core/windows.ts'
import { refuseForeign } from '../store/origin.ts'
import type { Store } from '../store/store.ts'
import type { Investigation } from '../store/turn.ts'
import type { TargetStatus } from '../store/views.ts'
import type { TargetRegistry } from '../target/target.ts'
import { lastWait } from './outlook.ts'
import { policyOfDoubt, timesOfDoubt } from './policy-of-doubt.ts'
import type { LadderStep, ReconcileRequest } from './reconcile.ts'

/** What recovery would do with one request in doubt. Instants are epoch ms. */
export interface DryRunLine {
  readonly requestId: number
  readonly target: string
  readonly state: string
  readonly attempt: number
  /** Null while its call may be running. */
  readonly unknownSince: number | null
  /** `adopt`, `replay`, `recall`, `hold`, `canceled`, `later`, or `wait` while a lease runs or nobody describes the target. */
  readonly would: string
  readonly why: string
  /** When it is looked at again; null where the step is taken now. */
  readonly nextAt: number | null
  /** The rung of the ladder that decides, or is waited for; null where none is climbed. */
  readonly rung: 'lookup' | 'replay' | 'hold' | 'cancel' | null
  /** The ladder as it was climbed: each rung, and why it decides, waits or leads to the next. */
  readonly steps: readonly LadderStep[]
  /** The decision, for people. */
  readonly says: string
  /** When a worker that runs looks into it by itself. */
  readonly checkAt: number | null
  /** The end of whoever's lease is on it. */
  readonly leaseUntil: number | null
  /** Until when it can be replayed under its key; null where it cannot, or always can. */
  readonly windowClosesAt: number | null
  /** When it is held, whatever was found. */
  readonly deadlineAt: number | null
  /** Its target is paused: it is looked up, and called no more until `resume`. */
  readonly paused: boolean
}

const PAGE = 500

export interface DryRunOptions {
  readonly store: Store
  readonly registry: TargetRegistry
  readonly reconcile: (investigation: Investigation, asked: ReconcileRequest) => Promise<Reconciliation>
  /** Its credentials are not set here, so nobody can tell whether the account is still the same. */
  readonly isAccountUnknown: (target: string) => boolean
  readonly windowClock: () => Promise<WindowClock>
  readonly now: () => number
  readonly location: string
}

/** @throws OnceishError STORE_RESTORED, STORE_MOVED: recovery would do none of it */
export async function* dryRun(options: DryRunOptions): AsyncGenerator<DryRunLine> {
  refuseForeign(await options.store.origin(), options.location)
  const { targets } = await options.store.status()
  for (let afterId = 0; ; ) {
    const page = await options.store.inDoubt(afterId, PAGE)
    for (const investigation of page) {
      afterId = investigation.row.requestId
      yield await explain(investigation, targets[investigation.row.target], options)
    }
    if (page.length < PAGE) return
  }
}

async function explain(
  investigation: Investigation,
  status: TargetStatus | undefined,
  options: DryRunOptions,
): Promise<DryRunLine> {
  const { registry, now, isAccountUnknown } = options
  const { requestId, target, state, attempt, unknownSince, leaseOwner, leaseUntil, nextCheckAt } = investigation.row
  const { paused = false, waits: pauses = [] } = status ?? {}
  const policy = policyOfDoubt(registry, investigation)
  const present = registry.get(target)
  const line = {
    ...{ requestId, target, state, attempt, unknownSince, leaseUntil, paused, rung: null, steps: [] },
    checkAt: leaseUntil ?? nextCheckAt,
    ...timesOfDoubt(investigation.row, policy),
  }
  const wait = (why: string, nextAt: number | null, says: string) => ({ ...line, would: 'wait', why, nextAt, says })
  if (present === undefined) {
    const says = 'nobody looks into it: the config names no such target; put it back, or resolve the request'
    return wait('the config names no such target', null, says)
  }
  if (leaseUntil !== null && leaseUntil > now()) {
    if (state !== 'invoking') return wait('it is being looked into', leaseUntil, `${leaseOwner} is looking into it`)
    const says = `${leaseOwner} is calling, or died in the call: it is looked into when the lease is over`
    return wait('its lease is running', leaseUntil, says)
  }
  const steps: LadderStep[] = []
  const isUnsure = isAccountUnknown(target)
  const asked = { isDryRun: true, isAccountUnknown: isUnsure, onStep: (step: LadderStep) => steps.push(step) }
  const looked = { ...investigation, row: asExpired(investigation.row, now()) }
  const verdict = await checked(looked, await options.reconcile(looked, asked), options)
  const mayCallAt = lastWait(pauses, now())?.until ?? null
  const ahead = isCall(verdict) ? await aheadOf(requestId, options) : null
  const { version: presentVersion } = present
  const waits = { paused, mayCallAt, ahead }
  const context = { investigation, presentVersion, ...waits, isUnsure, closesAt: line.windowClosesAt }
  return {
    ...line,
    would: verdict.kind,
    why: whyOf(verdict, context),
    nextAt: verdict.kind === 'later' ? verdict.at : null,
    rung: rungOf(verdict, steps),
    steps,
    says: saysOf(verdict, context),
  }
}

async function aheadOf(requestId: number, { store }: DryRunOptions): Promise<number | null> {
  const [view] = await store.viewsOf([requestId])
  return view?.behind?.requestId ?? null
}

/** What a turn makes of a call whose lease has run out, before anybody looks into it. */
function asExpired(row: TaskState, now: number): TaskState {
  if (row.state !== 'invoking') return row
  const endedAt = Math.max(row.leaseUntil ?? now, row.endedAt ?? 0)
  return { ...row, state: 'unknown', endedAt, unknownSince: row.unknownSince ?? now, reason: 'lease_expired' }
}

/** A call is checked once more as it is claimed: what would be refused there is told. */
async function checked(
  { row }: Investigation,
  { verdict, policy }: Reconciliation,
  { now, windowClock }: DryRunOptions,
): Promise<ReconciliationVerdict> {
  if (!isCall(verdict)) return verdict
  const context = { now: now(), policy, random: () => 0, clock: await windowClock() }
  const decision = decideReconciliation(row, verdict, context)
  if (decision.kind === 'call') return verdict
  const { reason, nextCheckAt } = decision.patch
  const found = { reason: reason ?? verdict.reason, evidence: null }
  return decision.to === 'held'
    ? { kind: 'hold', ...found }
    : { kind: 'later', at: nextCheckAt ?? context.now, missCounted: false, ...found }
}

/** What was climbed last decided; past the last rung there is only `hold`. */
function rungOf(verdict: ReconciliationVerdict, steps: readonly LadderStep[]): DryRunLine['rung'] {
  if (verdict.kind === 'hold') return 'hold'
  return steps.at(-1)?.rung ?? (verdict.kind === 'canceled' ? 'cancel' : null)
}

interface Told {
  readonly investigation: Investigation
  readonly presentVersion: string
  readonly paused: boolean
  /** The request of its ordering key that goes first. */
  readonly ahead: number | null
  /** Not earlier, as the API told; null: now. */
  readonly mayCallAt: number | null
  readonly isUnsure: boolean
  readonly closesAt: number | null
}

function isOlder({ investigation, presentVersion }: Told): boolean {
  return investigation.row.targetVersion !== presentVersion
}

function whyOf(verdict: ReconciliationVerdict, told: Told): string {
  if (verdict.kind === 'adopt') return withAge(`task ${verdict.taskId}`, told)
  return isMissing(verdict) ? `${verdict.reason}: ${versions(told)}` : withAge(verdict.reason, told)
}

function isMissing(verdict: ReconciliationVerdict): boolean {
  return verdict.kind === 'hold' && verdict.reason === 'description_missing'
}

function versions({ investigation, presentVersion }: Told): string {
  return `called by version ${investigation.row.targetVersion}, here is ${presentVersion}; recover with that version first`
}

function withAge(why: string, told: Told): string {
  return isOlder(told) ? `${why} (by the description of its call: the config has changed since)` : why
}

function saysOf(verdict: ReconciliationVerdict, told: Told): string {
  const calls = isCall(verdict)
  const notes = [
    calls && told.paused ? 'once its target is resumed' : '',
    told.ahead === null ? '' : `once request ${told.ahead} of its ordering key has settled`,
    calls && told.mayCallAt !== null ? `not before ${new Date(told.mayCallAt).toISOString()}, as its target waits` : '',
    told.isUnsure && calls ? 'if the account is still the same: its credentials are not set here' : '',
    isOlder(told) && !isMissing(verdict) ? 'by the description of its call: the config has changed since' : '',
  ].filter((note) => note !== '')
  return `${sentenceOf(verdict, told)}${notes.length === 0 ? '' : ` (${notes.join('; ')})`}`
}

function sentenceOf(verdict: ReconciliationVerdict, told: Told): string {
  switch (verdict.kind) {
    case 'adopt':
      return `the lookup found task ${verdict.taskId}: it is adopted`
    case 'replay':
      return `the same bytes are sent again under the same key${closing(told)}`
    case 'recall':
      return 'the lookup shows nothing, late and often enough: it surely never arrived, and is called again'
    case 'hold':
      return `held for a person: ${sayReason(verdict.reason)}${isMissing(verdict) ? `; ${versions(told)}` : ''}`
    case 'canceled':
      return `canceled: ${sayReason(verdict.reason)}`
    case 'later':
      return `looked into again: ${sayReason(verdict.reason)}${verdict.reason === 'miss_not_settled' ? WATCHING : ''}`
  }
}

function closing({ closesAt }: Told): string {
  return closesAt === null ? '' : `, which the API remembers for long enough until ${new Date(closesAt).toISOString()}`
}

const WATCHING = '; each process watches that time anew, so a worker that runs already may count it sooner'
