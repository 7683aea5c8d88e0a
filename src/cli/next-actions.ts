// What a person can do next with one request or orphan, as the words of commands: ready to paste, but for the id of a task.
import type { ListedOrphan, RequestDetail, RequestView } from '../store/views.ts'
import { quoted } from './context.ts'
import { table } from './print.ts'

export interface NextAction {
  readonly words: string
  /** When it is the right one. */
  readonly when: string
}

export function nextActions(view: RequestView): readonly NextAction[] {
  const { requestId, state, reason } = view
  if (state === 'held') return [...beforeTheWord(view), ...resolveActions(view)]
  if (state === 'unknown') {
    return [{ words: 'recover --dry-run', when: 'what recovery would do, and why' }, ...resolveActions(view)]
  }
  if (state === 'dead' && reason !== 'abandoned') {
    return [
      reason === 'expired'
        ? {
            words: `retry ${requestId} --expires-at ${quoted(TIME_PLACEHOLDER)}`,
            when: 'it is still wanted until then',
          }
        : { words: `retry ${requestId}`, when: 'the cause is gone' },
      { words: `cancel ${requestId}`, when: `it is not wanted any more${freesOthers(view)}` },
    ]
  }
  return []
}

/** One that died under `onDead: continue` keeps nobody waiting: it stands in no line any more, which a list does not know. */
function freesOthers(view: RequestView & Partial<Pick<RequestDetail, 'line'>>): string {
  return view.orderingKey === null || view.line === null ? '' : '; the others of its ordering key go on'
}

/** What may spare the word. */
function beforeTheWord({ reason }: RequestView): readonly NextAction[] {
  if (reason !== 'description_missing') return []
  return [
    { words: 'targets', when: 'look which version is loaded: one that made the call settles its doubt by itself' },
  ]
}

function resolveActions(view: RequestView): readonly NextAction[] {
  const resolve = `resolve ${view.requestId} --if-version ${view.version}`
  return view.resolutions.map((kind) => ({
    words: `${resolve} ${flagOf(kind)}${kind === 'task_id' ? ` ${taskWord(view)}` : ''}`,
    when: whenOf(kind, view),
  }))
}

function taskWord({ taskId }: RequestView): string {
  return taskId !== null && quoted(taskId) === taskId ? taskId : quoted(TASK_PLACEHOLDER)
}

/** Of `resolve`. */
export function flagOf(kind: RequestView['resolutions'][number]): string {
  return `--${kind.replaceAll('_', '-')}`
}

const TIME_PLACEHOLDER = '<time>'

/** What stands in a printed command for what only a person knows; `resolve` refuses it. */
export const TASK_PLACEHOLDER = '<task id>'

function whenOf(kind: RequestView['resolutions'][number], view: RequestView): string {
  const { taskId, reason, resolutions } = view
  const happened = (why: string | null) =>
    resolutions.includes('not_executed') || why === 'mismatch' || why === 'exists_not_ours'
      ? 'it happened'
      : 'an answer showed that it happened'
  const isCanceling = reason?.startsWith('cancel_') ?? false
  switch (kind) {
    case 'task_id':
      if (taskId === null) return `${happened(reason)}: with its id at the API`
      return isCanceling ? 'its task was not canceled, and stays: it ends submitted' : 'it happened: its task is known'
    case 'not_executed':
      return isCanceling
        ? 'it did not happen: it is canceled'
        : 'it did not happen: it is called again, under the same key where it has one'
    case 'retry_accepting_duplicates':
      return 'a second effect would do no harm: it is called again as new'
    case 'abandon':
      return taskId === null
        ? `give it up; its doubt stays on record${freesOthers(view)}`
        : `give it up; its task is listed by "onceish orphans", to be dealt with at the API${freesOthers(view)}`
  }
}

export function orphanActions({ orphanId: id, request }: ListedOrphan): readonly NextAction[] {
  const dismiss = { words: `orphans dismiss ${id}`, when: 'it was canceled at the API, or does no harm' }
  if (request === null) return [dismiss]
  const look = { words: `show ${request.requestId}`, when: 'the story of its request' }
  const isFinal = request.state === 'canceled' || request.state === 'succeeded' || request.state === 'invoking'
  if (isFinal) return [look, dismiss]
  const adopt = `orphans adopt ${id} --if-version ${request.version}`
  return [look, { words: adopt, when: 'it is the right task of its request' }, dismiss]
}

/** One below the other, indented, without a head. */
export function actionLines(actions: readonly NextAction[], next: (words: string) => string): string {
  const rows = actions.map(({ words, when }) => [next(words), when])
  return table(['', ''], rows)
    .replace(/^\s*\n/, '')
    .replaceAll(/^/gm, '  ')
}
