// A person's word: one row at a time, by compare-and-set on what the person saw, idempotent, and noted. Runs inside a
// transaction.
import { invariant } from '../../core/errors.ts'
import type { Evidence } from '../../core/outcome.ts'
import { NO_POLICY, type PolicyOf, type TargetPolicy } from '../../core/policy.ts'
import { isKnownToHaveHappened } from '../../core/resolutions.ts'
import { settleOn } from '../../core/settlement.ts'
import { isInDoubt, isSettled, type TaskState } from '../../core/task-state.ts'
import {
  canceled,
  type EventDraft,
  expired,
  isExpired,
  type Orphan,
  RELEASED,
  type Transition,
  transition,
} from '../../core/transition.ts'
import { quietMs } from '../../core/windows.ts'
import type {
  NewDeadline,
  OperatorResult,
  OperatorWord,
  RequestView,
  Resolution,
  Saying,
  SeenRequest,
} from '../views.ts'
import { noteEvent } from './events.ts'
import { requestView } from './queries.ts'
import type { Statements } from './statements.ts'
import { applyTransition, currentTaskState } from './transitions.ts'

type Answer = Transition | Returning | 'unchanged' | { readonly refused: string }

/** Nothing of the row changes but the priority by which it is queued, should it be again. */
interface Returning {
  readonly kind: 'returning'
  readonly priority: number
  readonly event: EventDraft
}

/** What it would come to is told by a dry run, which writes nothing. */
type Said = OperatorWord & { readonly dryRun?: boolean }

/** One word for many, each by the version that was seen. */
export function sayToEach(
  sql: Statements,
  seen: readonly SeenRequest[],
  saying: Saying,
  word: Omit<OperatorWord, 'ifVersion'>,
  options: { dryRun: boolean; policyOf: PolicyOf },
): OperatorResult[] {
  const { dryRun, policyOf } = options
  return seen.map(({ requestId, version }) => {
    const said = { ...word, ifVersion: version, dryRun }
    switch (saying.word) {
      case 'retry':
        return retry(sql, requestId, said, { ...saying, policyOf })
      case 'reprioritize':
        return reprioritize(sql, requestId, saying.priority, said)
      case 'cancel':
        return cancel(sql, requestId, said)
      case 'resolve':
        return resolve(sql, requestId, saying.resolution, said, { force: saying.force, policyOf })
      default:
        return noSuchWord(saying)
    }
  })
}

export function retry(
  sql: Statements,
  requestId: number,
  word: Said,
  { policyOf, ...given }: NewDeadline & { policyOf: PolicyOf },
): OperatorResult {
  return change(sql, requestId, word, (row, view) => {
    if (row.state !== 'dead')
      return { refused: row.state === 'held' ? 'use "onceish resolve"' : `${view.state} requests need no retry` }
    if (row.abandoned) return { refused: 'it was abandoned in doubt, so a second call could make a duplicate' }
    const deadline = deadlineOf(row, given, word.now)
    if ('refused' in deadline) return deadline
    return transition('queued', {
      patch: { ...REOPENED, ...deadline, reason: 'retried' },
      dueAt: word.now,
      unfreeze: true,
      raiseGeneration: policyOf(row.target)?.key?.failedFirst === 'replayed',
      event: { kind: 'retried', reason: word.note },
    })
  })
}

/** Nobody who has it called wants it dead at once; that it may be called after all only they can say. */
function deadlineOf(
  row: TaskState,
  given: NewDeadline,
  now: number,
): { readonly refused: string } | { readonly expiresAt: number | null } {
  const isNew = given.expiresAt !== undefined
  const expiresAt = isNew ? (given.expiresAt ?? null) : row.expiresAt
  if (expiresAt === null || !isExpired(expiresAt, now)) return { expiresAt }
  const over = `its deadline is over (${new Date(expiresAt).toISOString()})`
  return { refused: isNew ? over : `${over}: give it a new one with --expires-at TIME, or --expires-at never` }
}

/** Of what is queued, its place changes; of what is in doubt, the place that it would return to. */
export function reprioritize(sql: Statements, requestId: number, priority: number, word: Said): OperatorResult {
  return change(sql, requestId, word, (row, view) => {
    if (row.state !== 'queued' && !isInDoubt(row.state)) return { refused: `${view.state} requests are in no queue` }
    if (view.priority === priority) return 'unchanged'
    const detail = { from: view.priority, to: priority, note: word.note }
    const event = { kind: 'reprioritized', reason: null, detail }
    // Its call went out with the former priority, and what is asked about it must be asked as it was made.
    if (row.state !== 'queued') return { kind: 'returning', priority, event }
    return transition('queued', { patch: { priority }, dueAt: view.dueAt, event })
  })
}

export function resolve(
  sql: Statements,
  requestId: number,
  resolution: Resolution,
  word: Said,
  options: { force: boolean; policyOf: PolicyOf },
): OperatorResult {
  return change(sql, requestId, word, (row, view) => {
    if (isAlready(row, resolution)) return 'unchanged'
    if (row.state === 'invoking') return { refused: 'its call is running; wait until it ends or its lease is over' }
    if (row.state !== 'held' && row.state !== 'unknown') return { refused: `${view.state} requests are not in doubt` }
    return resolveDoubt(row, resolution, word, options)
  })
}

function isAlready(row: TaskState, resolution: Resolution): boolean {
  if (resolution.kind === 'task_id') return isSettled(row.state) && row.taskId === resolution.taskId
  if (resolution.kind === 'abandon') return row.state === 'dead' && row.abandoned
  if (resolution.kind === 'not_executed' && row.state === 'canceled') return row.reason === 'resolved_not_executed'
  if (resolution.kind === 'not_executed' && row.state === 'dead') return row.reason === 'expired'
  return row.state === 'queued' && row.reason === `resolved_${resolution.kind}`
}

const REOPENED = {
  taskId: null,
  attempts: 0,
  replays: 0,
  backoffStep: 0,
  executed: false,
  doubtfulAttempts: [],
  cancelRequested: false,
  ...RELEASED,
  endedAt: null,
  isEndObserved: false,
  unknownSince: null,
  nextCheckAt: null,
  misses: 0,
  lastMissAt: null,
  olderAnswer: null,
}

function resolveDoubt(
  row: TaskState,
  resolution: Resolution,
  word: OperatorWord,
  options: { force: boolean; policyOf: PolicyOf },
): Answer {
  const policy = options.policyOf(row.target) ?? NO_POLICY
  const event = { kind: 'resolved', reason: resolution.kind, detail: { note: word.note, resolution } }
  switch (resolution.kind) {
    case 'task_id': {
      const task = { attempt: row.attempt, taskId: resolution.taskId, evidence: row.evidence ?? BY_WORD }
      // Of a task that was known, canceling has been tried: the word ends it here.
      const asked = row.taskId === null ? row : { ...row, cancelRequested: false }
      const settled = settleOn(asked, task, { now: word.now, policy, random: Math.random }, 'resolved')
      return { ...settled, patch: { ...settled.patch, cancelRequested: asked.cancelRequested }, event }
    }
    case 'abandon': {
      // A task that is known is no longer its own: whoever deals with it at the API finds it among the orphans.
      const patch = { ...RELEASED, taskId: null, nextCheckAt: null, abandoned: true, reason: 'abandoned' }
      return transition('dead', { patch, unfreeze: true, orphan: knownTask(row), event })
    }
    case 'not_executed':
    case 'retry_accepting_duplicates':
      return resolveToQueue(row, resolution, word, { policy, force: options.force, event })
    default:
      return noSuchWord(resolution)
  }
}

/** What nobody knows must never lead to a call. */
function noSuchWord(word: never): never {
  invariant(false, `${JSON.stringify(word)} is no word of a person`)
}

/** A task that is known stays on record where the row goes on without it. */
function knownTask(row: TaskState): Orphan | null {
  if (row.taskId !== null) return { attempt: row.attempt, taskId: row.taskId, evidence: row.evidence }
  return row.olderAnswer === null || row.olderAnswer.taskId === null
    ? null
    : { ...row.olderAnswer, taskId: row.olderAnswer.taskId }
}

function resolveToQueue(
  row: TaskState,
  resolution: Extract<Resolution, { kind: 'not_executed' | 'retry_accepting_duplicates' }>,
  word: OperatorWord,
  options: { policy: TargetPolicy; force: boolean; event: Transition['event'] },
): Answer {
  const { policy, force, event } = options
  const accepting = resolution.kind === 'retry_accepting_duplicates'
  const orphan = knownTask(row)
  if (!accepting && isKnownToHaveHappened(row)) {
    return { refused: orphan === null ? 'an answer showed that it happened' : `it happened: task ${orphan.taskId}` }
  }
  const until = (row.endedAt ?? 0) + quietMs(policy)
  if (until > word.now && !force) {
    return { refused: `its last call may still land until ${new Date(until).toISOString()}; wait, or use --force` }
  }
  if (row.cancelRequested && !accepting) return { ...canceled(row.evidence, 'resolved_not_executed'), event }
  if (!accepting && isExpired(row.expiresAt, word.now))
    return { ...expired(row, row.evidence, policy.onDead === 'block'), orphan, event }
  const deadline = accepting ? deadlineOf(row, resolution, word.now) : { expiresAt: row.expiresAt }
  if ('refused' in deadline) return deadline
  // Under its own key the same bytes go out again, so that a wrong word makes no duplicate where the API remembers the key.
  const keepsBytes = !accepting && row.idempotencyKey !== null
  return transition('queued', {
    patch: { ...REOPENED, ...deadline, reason: `resolved_${resolution.kind}` },
    dueAt: word.now,
    unfreeze: !keepsBytes,
    raiseGeneration: accepting,
    orphan,
    event,
  })
}

/** Nobody answered; a person said so. */
const BY_WORD: Evidence = { phase: 'unanswered', rule: 'resolve' }

export function cancel(sql: Statements, requestId: number, word: Said): OperatorResult {
  return change(sql, requestId, word, (row) => {
    if (row.state === 'canceled') return 'unchanged'
    if (isInDoubt(row.state)) return requestCancel(row, word)
    if (isSettled(row.state)) return { refused: `cancel task ${row.taskId ?? ''} at the API` }
    if (row.abandoned) return { refused: 'it was abandoned in doubt; purge it instead' }
    return { ...canceled(null, 'canceled'), event: { kind: 'canceled', reason: word.note } }
  })
}

/** No submit any more; recovery looks for the task and cancels it, or proves that there is none. */
function requestCancel(row: TaskState, word: OperatorWord): Answer {
  if (row.cancelRequested) return 'unchanged'
  const to = row.state === 'held' ? 'unknown' : row.state
  const patch = {
    cancelRequested: true,
    ...(to === 'unknown' ? { nextCheckAt: word.now, unknownSince: row.unknownSince ?? word.now } : {}),
  }
  return transition(to, { patch, event: { kind: 'cancel_requested', reason: word.note } })
}

function change(
  sql: Statements,
  requestId: number,
  word: Said,
  decide: (row: TaskState, view: RequestView) => Answer,
): OperatorResult {
  const view = requestView(sql, requestId)
  if (view === null) return { kind: 'not_found' }
  const row = currentTaskState(sql, requestId, word.now)
  if (row === null) return { kind: 'not_found' }
  const answer = decide(row, view)
  // Said before: it is done, whatever version that has led to.
  if (answer === 'unchanged') return { kind: 'unchanged', view }
  if (word.ifVersion !== null && view.version !== word.ifVersion) return { kind: 'version_changed', view }
  if ('refused' in answer) return { kind: 'refused', view, why: answer.refused }
  if (word.dryRun) return { kind: 'applied', view: foreseen(view, answer, word.now) }
  write(sql, row, answer, word)
  return { kind: 'applied', view: requestView(sql, requestId) ?? view }
}

function write(sql: Statements, row: TaskState, answer: Transition | Returning, { now, actor }: OperatorWord): void {
  if (answer.kind === 'transition') {
    applyTransition(sql, row, answer, { now, actor })
    return
  }
  sql.setPriority.run(answer.priority, row.requestId)
  noteEvent(sql, row, row.state, answer.event, { now, actor })
}

/** The request as the word would leave it, as far as a dry run tells. */
function foreseen(view: RequestView, answer: Transition | Returning, now: number): RequestView {
  if (answer.kind === 'returning') return { ...view, priority: answer.priority }
  const { to, patch, dueAt } = answer
  const state = to !== 'queued' ? to : (dueAt ?? now) > now ? 'scheduled' : 'ready'
  return {
    ...view,
    state,
    taskId: patch.taskId === undefined ? view.taskId : patch.taskId,
    priority: patch.priority ?? view.priority,
  }
}
