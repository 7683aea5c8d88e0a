import type { Command } from 'commander'
import { REQUEST_STATES, type RequestState } from '../../core/task-state.ts'
import type { RequestView } from '../../store/views.ts'
import { example, nonEmpty, oneOf, wholeNumber } from '../arguments.ts'
import { type Context, requireTarget, withExistingStore } from '../context.ts'
import { plural, print, printJson, relative, shorten, table } from '../print.ts'

interface ListOptions {
  readonly state?: RequestState
  readonly target?: string
  readonly limit?: number
}

export function addList(program: Command): void {
  program
    .command('list')
    .description('requests in the order of their ids')
    .option('--state <state>', `only these: ${REQUEST_STATES.join(', ')}`, oneOf(REQUEST_STATES))
    .option('--target <name>', 'only those of this target', nonEmpty)
    .option('--limit <n>', 'at most so many', wholeNumber(1, 1_000_000))
    .addHelpText('after', example('onceish list --state held --target transcribe'))
    .action(({ state, target, limit }: ListOptions, command: Command) =>
      withExistingStore(command, async (context) => {
        const { once, isJson } = context
        if (target !== undefined) await requireSeen(context, target)
        const views = await once.list({ ...(state && { state }), ...(target && { target }), ...(limit && { limit }) })
        if (isJson) for (const view of views) printJson(view)
        else if (views.length === 0) print('no requests')
        else printViews(views, context)
      }),
    )
}

/** A target that the config has dropped may still have rows; one that nobody ever named is a slip of the pen. */
export async function requireSeen({ once, config }: Context, target: string): Promise<void> {
  const rows = await once.list({ target, limit: 1 })
  if (rows.length === 0) requireTarget(config, target)
}

function printViews(views: readonly RequestView[], { next }: Context): void {
  const now = Date.now()
  print(
    table(
      ['request', 'target', 'state', 'task', 'priority', 'attempts', 'changed', 'due', 'why'],
      views.map((view) => row(view, now)),
    ),
  )
  print(plural(views.length, 'request'))
  const held = views.filter(({ state }) => state === 'held')
  if (held.length === 0) return
  print('', 'Held requests wait for your word: look with "onceish show ID", then add to its line')
  print('  --task-id T (it happened), --not-executed (it did not), --retry-accepting-duplicates, or --abandon', '')
  print(...held.map(({ requestId, version }) => `  ${next(`resolve ${requestId} --if-version ${version}`)}`))
}

function row(view: RequestView, now: number) {
  const { requestId, target, state, taskId, priority, attempts, updatedAt, dueAt, lastError } = view
  const due = state === 'scheduled' ? relative(dueAt, now) : null
  return [
    requestId,
    target,
    state,
    shorten(taskId, 40),
    priority,
    attempts,
    relative(updatedAt, now),
    due,
    shorten(lastError, 60),
  ]
}
