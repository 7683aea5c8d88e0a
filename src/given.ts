// The options of an opened store's words, checked before any of them is said.
import type { EachOptions, OpenSettings, WordOptions, WorkOptions } from './api.ts'
import { OnceishError } from './core/errors.ts'
import {
  CHECKED_LATER,
  type Check,
  checkedOptions,
  DURATION,
  type Fields,
  FLAG,
  FUNCTION,
  ID,
  listOf,
  oneOf,
  said,
  TEXT,
} from './core/given.ts'
import { MAX_TASK_ID_CHARS } from './core/limits.ts'
import { RESOLUTION_KINDS } from './core/resolutions.ts'
import { didYouMean } from './core/suggest.ts'
import { REQUEST_STATES } from './core/task-state.ts'
import type { NewDeadline, RequestFilter, Resolution } from './store/views.ts'

const COUNT: Check = [(value) => Number.isSafeInteger(value) && (value as number) > 0, 'a whole number, at least 1']

const WORD: Fields<WordOptions> = {
  actor: TEXT,
  note: TEXT,
  // Some have it from JSON.
  ifVersion: [(value) => value === null || Number.isSafeInteger(value), 'a whole number'],
}
const DEADLINE: Fields<NewDeadline> = { expiresAt: CHECKED_LATER }
const FORCE = { force: FLAG }
const EACH: Fields<EachOptions> = { ...WORD, dryRun: FLAG, onEach: FUNCTION }

/** By whom it is taken. */
const OPTIONS = {
  word: WORD,
  retry: { ...WORD, ...DEADLINE },
  resolve: { ...WORD, ...FORCE },
  each: EACH,
  retryEach: { ...EACH, ...DEADLINE },
  resolveEach: { ...EACH, ...FORCE },
} as const

/** @throws OnceishError USAGE */
export function checkedWord<T extends WordOptions>(kind: keyof typeof OPTIONS, given: T | undefined): T {
  return checkedOptions<T>('options of a word', given, OPTIONS[kind] as unknown as Fields<T>)
}

const WORK: Fields<WorkOptions> = {
  concurrency: CHECKED_LATER,
  targets: listOf(TEXT),
  drain: CHECKED_LATER,
  onProgress: FUNCTION,
}

/** @throws OnceishError USAGE */
export function checkedWork(given: WorkOptions | undefined): WorkOptions {
  const work = checkedOptions('options of a worker', given, WORK)
  if (work.drain === undefined) return work
  const { horizonMs } = checkedOptions('options of drain', work.drain, { horizonMs: DURATION })
  if (horizonMs === undefined) throw new OnceishError('USAGE', 'drain is { horizonMs }')
  return work
}

const FILTER: Fields<RequestFilter> = {
  state: oneOf(REQUEST_STATES),
  target: TEXT,
  reason: TEXT,
  orderingKey: TEXT,
  stuck: FLAG,
  group: TEXT,
  limit: COUNT,
  afterId: ID,
}

/** @throws OnceishError USAGE */
export function checkedFilter(given: Partial<RequestFilter> | undefined): Partial<RequestFilter> {
  return checkedOptions<Partial<RequestFilter>>('filters of requests', given, FILTER)
}

/** @throws OnceishError USAGE */
export function checkedLimit(limit: number | undefined): number | undefined {
  return checkedOptions('limits', { limit }, { limit: COUNT }).limit
}

/** @throws OnceishError USAGE */
export function checkedName(target: string): string {
  if (typeof target === 'string') return target
  throw new OnceishError('USAGE', `a target is told by its name, not by ${said(target)}`)
}

const SETTINGS: Fields<OpenSettings> = { create: FLAG, clock: CHECKED_LATER, log: CHECKED_LATER, actor: TEXT }

/** Beside these stands nothing else but `config`. @throws OnceishError USAGE */
export function checkedSettings(given: OpenSettings & { readonly config?: unknown }): void {
  checkedOptions('options of openOnceish', given, { ...SETTINGS, config: CHECKED_LATER })
}

const RESOLUTION_FIELDS: Readonly<Record<Resolution['kind'], readonly string[]>> = {
  task_id: ['kind', 'taskId'],
  not_executed: ['kind'],
  retry_accepting_duplicates: ['kind', 'expiresAt'],
  abandon: ['kind'],
}

/** A word that is misunderstood is a second call, or work that is lost. @throws OnceishError REQUEST_INVALID */
export function checkedResolution(given: Resolution): Resolution {
  const words = `it is { kind: 'task_id', taskId } (it happened), { kind: 'not_executed' } (it did not), { kind: 'retry_accepting_duplicates' } or { kind: 'abandon' }`
  if (typeof given !== 'object' || given === null) throw invalid(`a resolution is no ${said(given)}: ${words}`)
  const { kind } = given
  if (!RESOLUTION_KINDS.includes(kind))
    throw invalid(
      `a resolution has no kind ${said(kind)}${typeof kind === 'string' ? didYouMean(kind, RESOLUTION_KINDS) : ''}: ${words}`,
    )
  const known = RESOLUTION_FIELDS[kind]
  for (const name of Object.keys(given))
    if (!known.includes(name)) throw invalid(`a resolution ${kind} has no ${JSON.stringify(name)}: ${words}`)
  if (given.kind === 'task_id') checkTaskId(given.taskId)
  return given
}

function checkTaskId(taskId: unknown): void {
  if (typeof taskId === 'string' && taskId !== '' && taskId.length <= MAX_TASK_ID_CHARS) return
  throw invalid(`taskId is text of 1 to ${MAX_TASK_ID_CHARS} characters, not ${said(taskId)}`)
}

function invalid(message: string): OnceishError {
  return new OnceishError('REQUEST_INVALID', message)
}
