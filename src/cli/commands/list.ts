import type { Command } from 'commander'
import { sayReason } from '../../core/reasons.ts'
import { REQUEST_STATES, type RequestState } from '../../core/task-state.ts'
import type { RequestView } from '../../store/views.ts'
import { example, nonEmpty, oneOf, wholeNumber } from '../arguments.ts'
import { type Context, quoted, requireSeen, withExistingStore } from '../context.ts'
import { actionLines, flagOf, nextActions } from '../next-actions.ts'
import { escapeControls, plural, print, printJson, relative, shorten, table } from '../print.ts'
import { headWords } from '../stuck-keys.ts'

interface ListOptions {
  readonly state?: RequestState
  readonly target?: string
  readonly reason?: string
  readonly orderingKey?: string
  readonly group?: string
  readonly stuck?: true
  readonly limit?: number
}

const DEFAULT_LIMIT = 100

export function addList(program: Command): void {
  program
    .command('list')
    .description('requests in the order of their ids; of held ones why, since when, and what to do next')
    .option('--state <state>', `only these: ${REQUEST_STATES.join(', ')}`, oneOf(REQUEST_STATES))
    .option('--target <name>', 'only those of this target', nonEmpty)
    .option('--reason <word>', 'only those held, dead or waiting for this reason', nonEmpty)
    .option('--ordering-key <key>', 'only those of this key that are owed, or in the way of others', nonEmpty)
    .option('--group <name>', 'only those of this group that are owed, dead or canceled', nonEmpty)
    .option('--stuck', 'only those behind a request of their ordering key that is in doubt, held or dead')
    .option('--limit <n>', `at most so many; ${DEFAULT_LIMIT} unless said`, wholeNumber(1, 1_000_000))
    .addHelpText(
      'after',
      example(
        'onceish list --state held --target transcribe',
        'onceish list --reason opaque',
        'onceish list --state ready --group customer-7 --limit 1000',
      ),
    )
    .action((filter: ListOptions, command: Command) =>
      withExistingStore(command, async (context) => {
        const { once, isJson, next } = context
        if (filter.target !== undefined) await requireSeen(context, filter.target)
        const { limit = DEFAULT_LIMIT } = filter
        const found = await once.list({ ...filter, limit: limit + 1 })
        const views = found.slice(0, limit)
        const jsonOf = (view: RequestView) => ({ ...view, next: nextActions(view).map(({ words }) => next(words)) })
        if (isJson) for (const view of views) printJson(jsonOf(view))
        else if (views.length === 0) print('no requests')
        else printViews(views, context)
        // A list that ends at its bound must not pass for the whole one.
        const more = `the first ${limit}; --limit N for more`
        if (found.length > limit && !isJson) print('', more)
        else if (found.length > limit && filter.limit === undefined) process.stderr.write(`${more}\n`)
      }),
    )
}

function printViews(views: readonly RequestView[], context: Context): void {
  const now = Date.now()
  const has = {
    doubt: views.some(({ inDoubtSince }) => inDoubtSince !== null),
    key: views.some(({ orderingKey }) => orderingKey !== null),
    group: views.some(({ group }) => group !== null),
    deadline: views.some(({ expiresAt }) => expiresAt !== null),
  }
  print(
    table(
      [
        'request',
        'target',
        'state',
        'task',
        'priority',
        'attempts',
        'changed',
        ...(has.doubt ? ['in doubt'] : []),
        'due',
        ...(has.deadline ? ['expires'] : []),
        ...(has.group ? ['group'] : []),
        ...(has.key ? ['ordering key', 'behind'] : []),
        'why',
      ],
      views.map((view) => row(view, now, has)),
    ),
  )
  print(plural(views.length, 'request'))
  const held = views.filter(({ state }) => state === 'held')
  if (held.length > 0) printHeld(held, context)
}

function row(view: RequestView, now: number, has: Readonly<Record<'doubt' | 'deadline' | 'group' | 'key', boolean>>) {
  const { requestId, target, state, taskId, priority, attempts, updatedAt, inDoubtSince, dueAt, expiresAt, lastError } =
    view
  const due = state === 'scheduled' ? relative(dueAt, now) : null
  return [
    requestId,
    target,
    state,
    shorten(taskId, 40),
    priority,
    attempts,
    relative(updatedAt, now),
    ...(has.doubt ? [relative(inDoubtSince, now)] : []),
    due,
    ...(has.deadline ? [relative(expiresAt, now)] : []),
    ...(has.group ? [shorten(view.group, 40)] : []),
    ...(has.key ? keyCells(view) : []),
    shorten(lastError, 60),
  ]
}

function keyCells({ orderingKey, behind }: RequestView) {
  return [shorten(orderingKey, 40), behind === null ? null : `${behind.requestId}, ${headWords(behind)}`]
}

/** What was held for one reason is mostly judged alike: the reason is said once, and then the words for each, or for all. */
function printHeld(held: readonly RequestView[], { next }: Context): void {
  print('', 'Held requests wait for your word; "onceish show ID" has the evidence.')
  for (const alike of groupsOf(held)) {
    const { target, reason } = alike[0] as RequestView
    const ids = alike.length === 1 ? '' : ` (${alike.length})`
    print('', escapeControls(`${target}${ids}, ${reason}: ${sayReason(reason ?? '')}`))
    for (const view of alike.slice(0, SHOWN_EACH)) print(actionLines(nextActions(view), next))
    if (alike.length > SHOWN_EACH) print(`  and ${alike.length - SHOWN_EACH} more, in --json too`)
    if (alike.length > 1) {
      // Never the word that makes duplicates: that one is said of each.
      const word = alike.some((view) => view.resolutions.includes('not_executed')) ? 'not_executed' : 'abandon'
      const all = `resolve --target ${quoted(target)} --reason ${reason} ${flagOf(word)} --dry-run`
      print('', `  all of them at once, first without changing anything:`, `  ${next(all)}`)
    }
  }
}

const SHOWN_EACH = 10

function groupsOf(held: readonly RequestView[]): readonly (readonly RequestView[])[] {
  const groups = new Map<string, RequestView[]>()
  for (const view of held) {
    const id = JSON.stringify([view.target, view.reason])
    const group = groups.get(id)
    if (group === undefined) groups.set(id, [view])
    else group.push(view)
  }
  return [...groups.values()]
}
