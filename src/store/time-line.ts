// The whole story of one request, from what is stored of it: its events, and what they need not say since the rows say it (when
// it was enqueued, its calls, the plain success). Words of states are those that people are shown.
import type { Evidence } from '../core/outcome.ts'
import { sayReason } from '../core/reasons.ts'
import { isSettled, type RequestState, type TaskState } from '../core/task-state.ts'
import type { EventView, RequestView } from './views.ts'

/** One step of a request's story. Instants are UTC epoch ms. */
export interface TimeLineEntry {
  readonly at: number
  /** `enqueued`, `called`, `same_again` (calls), `asked_again` (looks), or the kind of an event. */
  readonly kind: string
  readonly from: RequestState | null
  readonly to: RequestState | null
  readonly attempt: number | null
  /** Who did it; null where that is not on record. */
  readonly actor: string | null
  /** For people. */
  readonly said: string
  readonly reason: string | null
  /** Of the call, or of the lookup. */
  readonly evidence: Evidence | null
  /** Of a call. */
  readonly key: string | null
  readonly fingerprint: string | null
  /** What a person added. */
  readonly note: string | null
  /** How often, where only the last was kept, which was at `at`. */
  readonly times: number
}

export interface Story {
  readonly view: RequestView
  readonly row: TaskState | null
  readonly fingerprint: string | null
  readonly events: readonly EventView[]
}

/** What events carry besides their own detail, of the row that they left (`store/sqlite/transitions.ts`). */
interface Detail {
  readonly evidence?: Evidence | null
  readonly outcome?: { readonly kind: string; readonly evidence: Evidence; readonly taskId?: string | null }
  readonly taskId?: string | null
  readonly instead?: string | null
  readonly note?: string | null
  readonly resolution?: { readonly kind: string; readonly taskId?: string }
  readonly attempt?: number
  readonly misses?: number
  readonly waitMs?: number
  readonly call?: CallOnRecord
  /** The round of looking that the row is in from here on. */
  readonly round?: number
  readonly asked?: Asked
  /** Of a priority. */
  readonly from?: number
  readonly to?: number
}

/** The call that the event ended. */
export interface CallOnRecord {
  readonly claimedAt: number
  readonly key: string | null
  readonly fingerprint: string | null
  readonly leaseOwner: string | null
}

/** How far looking had come, and what was found last: rounds that brought nothing new have no event of their own. */
export interface Asked {
  readonly round: number
  readonly lastAt: number
  readonly reason: string | null
}

export function timeLineOf(story: Story): readonly TimeLineEntry[] {
  const { view, row, events } = story
  const entries: TimeLineEntry[] = [enqueued(view, events), ...plainSuccess(story)]
  let lastAttempt = entries.length > 1 ? 1 : 0
  let round: number | null = null
  for (const event of events) {
    const detail = (event.detail ?? {}) as Detail
    const { attempt } = event
    const isRepeat = event.kind === 'replay' || event.kind === 'recall'
    if (attempt !== null && detail.call !== undefined && attempt > lastAttempt) {
      entries.push(...sameAgain(lastAttempt, attempt, detail.call.claimedAt))
      if (!isRepeat) entries.push(callEntry(attempt, detail.call))
      lastAttempt = attempt
    }
    entries.push(...askedAgain(round, detail.asked, attempt), eventEntry(event, detail, view))
    round = detail.round ?? null
  }
  if (row === null) return entries
  if (row.state === 'queued') return [...entries, ...sameAgain(lastAttempt, row.attempt + 1, row.updatedAt)]
  if (row.state === 'invoking') return [...entries, ...runningCall(story, row, lastAttempt)]
  if (row.state !== 'unknown') return entries
  const { backoffStep, updatedAt, reason, attempt } = row
  return [...entries, ...askedAgain(round, { round: backoffStep, lastAt: updatedAt, reason }, attempt)]
}

const BLANK = {
  from: null,
  to: null,
  attempt: null,
  actor: null,
  reason: null,
  evidence: null,
  key: null,
  fingerprint: null,
  note: null,
  times: 1,
} as const

function enqueued(
  { createdAt, logicalHash, dueAt, attempt }: RequestView,
  events: readonly EventView[],
): TimeLineEntry {
  // Its first due time is only known while nothing has moved it.
  const isLater = attempt === 0 && events.length === 0 && dueAt !== null && dueAt > createdAt
  return { ...BLANK, at: createdAt, kind: 'enqueued', to: isLater ? 'scheduled' : 'ready', said: `hash ${logicalHash}` }
}

function callEntry(attempt: number, { claimedAt, key, fingerprint, leaseOwner }: CallOnRecord): TimeLineEntry {
  const actor = leaseOwner === null ? null : `worker:${leaseOwner.slice(0, leaseOwner.lastIndexOf(':'))}`
  const facts = { attempt, actor, key, fingerprint, said: callWords(key, fingerprint) }
  return { ...BLANK, ...facts, at: claimedAt, kind: 'called', from: 'ready', to: 'invoking' }
}

function callWords(key: string | null, fingerprint: string | null): string {
  return [key === null ? 'without a key' : `key ${key}`, fingerprint === null ? '' : `fingerprint ${fingerprint}`]
    .filter((words) => words !== '')
    .join(', ')
}

function askedAgain(round: number | null, asked: Asked | undefined, attempt: number | null): readonly TimeLineEntry[] {
  const times = round === null || asked === undefined ? 0 : asked.round - round
  if (times <= 0 || asked === undefined) return []
  const { lastAt: at, reason } = asked
  const said = `nothing new${reason === null ? '' : `: ${sayReason(reason)}`}`
  return [{ ...BLANK, at, kind: 'asked_again', from: 'unknown', to: 'unknown', attempt, reason, times, said }]
}

function eventEntry(event: EventView, detail: Detail, view: RequestView): TimeLineEntry {
  const { at, kind, attempt, actor, reason } = event
  return {
    at,
    kind,
    from: stateShown(event.from, event, detail, view),
    to: stateShown(event.to, event, detail, view),
    attempt: kind === 'late_answer' || kind === 'orphan' ? (detail.attempt ?? attempt) : attempt,
    actor,
    said: wordsOf(event, detail),
    reason,
    evidence: detail.evidence ?? detail.outcome?.evidence ?? null,
    key: detail.call?.key ?? null,
    fingerprint: detail.call?.fingerprint ?? null,
    note: noteOf(event, detail),
    times: 1,
  }
}

/** Where a person's word has no reason of its own, what they added stands there. */
const NOTED = ['retried', 'canceled', 'cancel_requested', 'orphan_dismissed']

function noteOf({ kind, reason, actor }: EventView, detail: Detail): string | null {
  if (detail.note !== undefined) return detail.note
  return NOTED.includes(kind) && !actor.startsWith('worker:') ? reason : null
}

/** Queued is ready, or scheduled where it was due later. */
function stateShown(state: string | null, event: EventView, detail: Detail, view: RequestView): RequestState | null {
  if (state !== 'queued') return state as RequestState | null
  if (state === event.to) return (detail.waitMs ?? 0) > 0 ? 'scheduled' : 'ready'
  return view.dueAt !== null && view.dueAt > event.at ? 'scheduled' : 'ready'
}

function wordsOf(event: EventView, detail: Detail): string {
  const { kind, reason } = event
  const why = reason === null ? '' : sayReason(reason)
  const task = typeof detail.taskId === 'string' ? `task ${detail.taskId}` : ''
  switch (kind) {
    case 'replay':
      return 'the same bytes again, under the same key'
    case 'recall':
      return 'called again: it surely never arrived'
    case 'asked_later':
      return detail.misses ? `${why} (misses: ${detail.misses})` : why
    case 'late_answer':
      return joined([`a late answer: ${reason}`, taskOf(detail)])
    case 'resolved':
      return joined([
        sayResolution(reason),
        detail.resolution?.taskId === undefined ? '' : `task ${detail.resolution.taskId}`,
      ])
    case 'orphan_adopted':
      return joined([why, task, detail.instead ? `instead of ${detail.instead}` : ''])
    case 'orphan_dismissed':
      return joined(['a person has dealt with it', task])
    case 'reprioritized':
      return `priority ${detail.from} -> ${detail.to}`
    case 'retried':
      return sayReason('retried')
    case 'not_executed':
    case 'blocked':
      return sayReason(kind)
    default:
      return NOTED.includes(kind) && noteOf(event, detail) !== null ? '' : joined([why, task])
  }
}

/** Of an answer `not_executed` is another thing. */
function sayResolution(reason: string | null): string {
  return sayReason(reason === 'not_executed' ? 'resolved_not_executed' : (reason ?? ''))
}

function taskOf({ outcome }: Detail): string {
  return typeof outcome?.taskId === 'string' ? `task ${outcome.taskId}` : ''
}

function joined(parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join(', ')
}

/** A first call that was answered as it should be has no event. */
function plainSuccess({ view, row, events }: Story): readonly TimeLineEntry[] {
  const isPlain = row?.attempt === 1 && isSettled(row.state) && !events.some(({ from }) => isBeforeSuccess(from))
  if (row === null || !isPlain || row.startedAt === null) return []
  const adopted = events.find(({ kind }) => kind === 'orphan_adopted')?.detail as Detail | undefined
  const taskId = adopted === undefined ? row.taskId : (adopted.instead ?? null)
  const said = joined([sayReason('answer'), taskId === null ? '' : `task ${taskId}`])
  const evidence = adopted === undefined ? row.evidence : null
  const facts = { claimedAt: row.startedAt, key: row.idempotencyKey, fingerprint: null, leaseOwner: null }
  const step = { kind: 'submitted', from: 'invoking', to: 'submitted', attempt: 1, evidence, reason: 'answer' } as const
  return [callEntry(1, facts), { ...BLANK, ...step, at: row.endedAt ?? view.updatedAt, said }]
}

function isBeforeSuccess(state: string | null): boolean {
  return state !== null && !isSettled(state as TaskState['state'])
}

function runningCall({ fingerprint }: Story, row: TaskState, lastAttempt: number): readonly TimeLineEntry[] {
  const { attempt, idempotencyKey: key, leaseOwner, updatedAt: claimedAt } = row
  if (attempt <= lastAttempt) return []
  const again = sameAgain(lastAttempt, attempt, claimedAt)
  return [...again, callEntry(attempt, { claimedAt, key, fingerprint, leaseOwner })]
}

/** Calls that surely had no effect, and ended like the one before them, have no event of their own. */
function sameAgain(lastAttempt: number, attempt: number, at: number): readonly TimeLineEntry[] {
  const times = attempt - lastAttempt - 1
  if (lastAttempt === 0 || times <= 0) return []
  const said = times === 1 ? 'it ended like the one before' : 'they ended like the one before'
  return [{ ...BLANK, at, kind: 'same_again', attempt: attempt - 1, times, said }]
}
