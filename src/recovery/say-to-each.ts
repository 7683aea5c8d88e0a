// One word of a person for many requests: what is meant is read first, with the version of each, and then told page by page.
// A row that changes meanwhile is refused and reported, and the others go on.
import { setTimeout as delay } from 'node:timers/promises'
import { OnceishError } from '../core/errors.ts'
import { checkedOptions, type Fields, ID, listOf, oneOf, TEXT } from '../core/given.ts'
import type { PolicyOf } from '../core/policy.ts'
import { isQueued, REQUEST_STATES, type RequestState } from '../core/task-state.ts'
import type { Store } from '../store/store.ts'
import type { OperatorResult, OperatorWord, RequestView, Saying, SeenRequest } from '../store/views.ts'

/** Which requests a word is for: those of `ids`, or all that fit; where both are given, those of `ids` that fit. */
export interface EachFilter {
  readonly ids?: readonly number[]
  readonly target?: string
  /** As `RequestView.reason` has it. */
  readonly reason?: string
  readonly group?: string
  /**
   * For `resolveWhere`, `held` (the default without ids) or `unknown`; for `reprioritizeWhere`, `ready` or `scheduled` (both); for
   * `cancelWhere` these (both), `dead`, `held` or `unknown`.
   */
  readonly state?: RequestState
}

const FIELDS: Fields<EachFilter> = {
  ids: listOf(ID),
  target: TEXT,
  reason: TEXT,
  group: TEXT,
  state: oneOf(REQUEST_STATES),
}

/** What became of one of them. */
export interface SaidRequest {
  readonly requestId: number
  /** Null where there is no such request. */
  readonly target: string | null
  /** As it was seen before. */
  readonly from: RequestState | null
  /** As it is now; in a dry run as it would be. */
  readonly state: RequestState | null
  readonly taskId: string | null
  readonly version: number | null
  readonly priority: number | null
  readonly result: OperatorResult['kind']
  /** Where it was refused: one clause for people. */
  readonly why: string | null
}

/** What became of all of them, in numbers. */
export interface SaidReport {
  readonly applied: number
  /** As asked before. */
  readonly unchanged: number
  /** By why: the state does not fit (or a call may still land), changed since it was read, not there. */
  readonly refused: { readonly refused: number; readonly versionChanged: number; readonly notFound: number }
  readonly dryRun: boolean
}

export interface SayOptions {
  readonly saying: Saying
  readonly word: Omit<OperatorWord, 'ifVersion'>
  /** The version that the person saw; for one id only. */
  readonly ifVersion: number | null
  readonly dryRun: boolean
  readonly policyOf: PolicyOf
  readonly onEach?: ((said: SaidRequest) => void) | undefined
}

const READ_PAGE = 1000
/** Of one transaction: a worker beside it waits no longer than for a neighbour's turn. */
const WRITE_PAGE = 100
const LEAST_REST_MS = 1

/** A filter that lost one of its fields would mean more than was said. */
function refuseVague(filter: EachFilter): void {
  for (const [name, value] of Object.entries(checkedOptions('filters of requests', filter, FIELDS)))
    if (value === undefined)
      throw new OnceishError('USAGE', `${name} is undefined: leave it out where any will do, or say which`)
}

function refuseMisfit(filter: EachFilter, { saying, ifVersion }: SayOptions): void {
  const isOne = filter.ids?.length === 1
  if (ifVersion !== null && !isOne) throw new OnceishError('USAGE', 'ifVersion is of one request: give one id')
  const { state } = filter
  if (saying.word === 'reprioritize' && state !== undefined && !isQueued(state))
    throw new OnceishError('USAGE', `${state} requests are in no queue: state is ready or scheduled`)
  if (saying.word === 'cancel' && !isQueued(state) && ![...ENDS_BY_CANCEL, undefined].includes(state))
    throw new OnceishError(
      'USAGE',
      `${state} requests are canceled by their ids, if at all: state is ready, scheduled, dead, held or unknown`,
    )
  if (saying.word !== 'resolve') return
  if (saying.resolution.kind === 'task_id' && !isOne)
    throw new OnceishError('USAGE', 'a task is that of one request: give one id')
  if (!['held', 'unknown', undefined].includes(state))
    throw new OnceishError('USAGE', `${state} requests are not in doubt: state is held or unknown`)
}

/** What else can be canceled by a filter, where it is asked for by name: nobody gives up doubt by the way. */
const ENDS_BY_CANCEL: readonly (RequestState | undefined)[] = ['dead', 'held', 'unknown']

type Meant = SeenRequest & { readonly from: RequestState }

/** @throws OnceishError USAGE where the filter is none, neither ids nor a filter say which, or a word for one is said to many. */
export async function sayToEach(store: Store, filter: EachFilter, options: SayOptions): Promise<SaidReport> {
  refuseVague(filter)
  refuseMisfit(filter, options)
  const tally = { applied: 0, unchanged: 0, refused: 0, version_changed: 0, not_found: 0 }
  const tell = (said: SaidRequest) => {
    tally[said.result]++
    options.onEach?.(said)
  }
  const meant = await readMeant(store, filter, options, tell)
  for (let at = 0; at < meant.length; at += WRITE_PAGE) {
    const page = meant.slice(at, at + WRITE_PAGE)
    const startedAt = performance.now()
    const results = await store.sayToEach(page, options.saying, options.word, options)
    for (const [i, result] of results.entries()) tell(saidOf(page[i] as Meant, result))
    await delay(options.dryRun ? 0 : Math.max(LEAST_REST_MS, performance.now() - startedAt))
  }
  const { applied, unchanged, refused, version_changed: versionChanged, not_found: notFound } = tally
  return { applied, unchanged, refused: { refused, versionChanged, notFound }, dryRun: options.dryRun }
}

async function readMeant(
  store: Store,
  filter: EachFilter,
  options: SayOptions,
  refuse: (said: SaidRequest) => void,
): Promise<readonly Meant[]> {
  const { ids, target, reason, group, state } = filter
  if (ids !== undefined) return readNamed(store, { ...filter, ids }, options, refuse)
  if (target === undefined && reason === undefined && group === undefined && state === undefined)
    throw new OnceishError('USAGE', 'say which requests: ids, a target, a reason, a group or a state')
  const fits = {
    ...(target !== undefined && { target }),
    ...(reason !== undefined && { reason }),
    ...(group !== undefined && { group }),
  }
  const { word } = options.saying
  const isOfQueue = word === 'reprioritize' || (word === 'cancel' && !ENDS_BY_CANCEL.includes(state))
  const read = (afterId: number) =>
    isOfQueue
      ? store.queued({ ...fits, ...(isQueued(state) && { state }) }, afterId, READ_PAGE)
      : store.list({ ...fits, state: state ?? (word === 'retry' ? 'dead' : 'held'), limit: READ_PAGE, afterId })
  const meant: Meant[] = []
  for (let afterId = 0; ; ) {
    const page = await read(afterId)
    for (const { requestId, version, state: from } of page) meant.push({ requestId, version, from })
    afterId = page.at(-1)?.requestId ?? afterId
    if (page.length < READ_PAGE) return meant
    await delay(0)
  }
}

async function readNamed(
  store: Store,
  filter: EachFilter & { readonly ids: readonly number[] },
  { ifVersion }: SayOptions,
  refuse: (said: SaidRequest) => void,
): Promise<readonly Meant[]> {
  const meant: Meant[] = []
  const ids = [...new Set(filter.ids)]
  for (let at = 0; at < ids.length; at += READ_PAGE) {
    const page = ids.slice(at, at + READ_PAGE)
    const views = new Map((await store.viewsOf(page)).map((view) => [view.requestId, view]))
    for (const requestId of page) {
      const view = views.get(requestId)
      const misfit = view === undefined ? null : misfitOf(view, filter)
      if (view === undefined) refuse(NOT_FOUND(requestId))
      else if (misfit !== null) refuse(saidOf({ ...view, from: view.state }, { kind: 'refused', view, why: misfit }))
      else meant.push({ requestId, version: ifVersion ?? view.version, from: view.state })
    }
  }
  return meant
}

function misfitOf(view: RequestView, { target, reason, group, state }: EachFilter): string | null {
  if (target !== undefined && view.target !== target) return `its target is ${view.target}`
  if (reason !== undefined && view.reason !== reason) return `its reason is ${view.reason ?? 'none'}`
  if (group !== undefined && view.group !== group) return `its group is ${view.group ?? 'none'}`
  return state !== undefined && view.state !== state ? `it is not ${state}` : null
}

function saidOf({ requestId, from }: Meant, result: OperatorResult): SaidRequest {
  if (result.kind === 'not_found') return NOT_FOUND(requestId)
  const { target, state, taskId, version, priority } = result.view
  const why =
    result.kind === 'refused'
      ? result.why
      : result.kind === 'version_changed'
        ? 'it has changed since it was read'
        : null
  return { requestId, target, from, state, taskId, version, priority, result: result.kind, why }
}

const NOT_FOUND = (requestId: number): SaidRequest => {
  const nothing = { target: null, from: null, state: null, taskId: null, version: null, priority: null }
  return { requestId, ...nothing, result: 'not_found', why: 'there is no such request' }
}
