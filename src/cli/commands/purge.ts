import type { Command } from 'commander'
import { ENDED_STATES, type EndedState, REQUEST_STATES, type RequestState } from '../../core/task-state.ts'
import { assertEnded, type PurgeReport } from '../../maintenance/purge.ts'
import { durationMs, example, nonEmpty, oneOf } from '../arguments.ts'
import { type Context, readSettings, requireSeen, withStore } from '../context.ts'
import { duration, plural, print, printJson, table } from '../print.ts'
import { startProgress } from '../progress.ts'

interface PurgeCommandOptions {
  readonly olderThan: number
  readonly state?: RequestState[]
  readonly target?: string
  readonly abandoned?: true
  readonly dryRun?: true
}

export function addPurge(program: Command): void {
  program
    .command('purge')
    .description('remove requests that ended long enough ago, and payloads kept past their time; doubt always stays')
    .requiredOption('--older-than <duration>', 'last changed at least so long ago, such as 12h or 7d', durationMs)
    .option('--state <state>', `only these, may be repeated: ${ENDED_STATES.join(', ')}`, states)
    .option('--target <name>', 'only those of this target', nonEmpty)
    .option('--abandoned', 'also what "resolve --abandon" has left in doubt')
    .option('--dry-run', 'say what would go, and remove nothing')
    .addHelpText(
      'after',
      example(
        'onceish purge --older-than 7d --dry-run',
        'onceish purge --older-than 30d --state submitted --state succeeded',
      ),
    )
    .action(async (options: PurgeCommandOptions, command: Command) => {
      const settings = await readSettings(command)
      const asked = options.state?.map(ended)
      await withStore(settings, { create: false }, (context) => runPurge(context, options, asked))
    })
}

function states(text: string, before: RequestState[] | undefined): RequestState[] {
  return [...new Set([...(before ?? []), oneOf(REQUEST_STATES)(text)])]
}

function ended(state: RequestState): EndedState {
  assertEnded(state)
  return state
}

async function runPurge(
  context: Context,
  { olderThan, target, abandoned, dryRun }: PurgeCommandOptions,
  asked: readonly EndedState[] | undefined,
): Promise<void> {
  const { once, isJson } = context
  if (target !== undefined) await requireSeen(context, target)
  const progress = startProgress({ isJson, format: '{bar} {percentage}%{note}', total: 1 })
  try {
    const report = await once.purge({
      olderThanMs: olderThan,
      ...(asked && { states: asked }),
      ...(target !== undefined && { targets: [target] }),
      ...(abandoned && { abandoned }),
      ...(dryRun && { dryRun }),
      onProgress: ({ purged, lastId, highestId }) => progress.update(lastId, highestId, `, ${purged} gone`),
    })
    progress.stop()
    if (isJson) printJson(report)
    else printReport(report, dryRun ?? false)
  } finally {
    progress.stop()
  }
}

const WHY_KEPT = {
  inDoubt: 'in doubt: never purged',
  tracked: 'their tasks are still asked about',
  tooRecent: 'changed more recently',
  abandoned: 'abandoned in doubt: --abandoned takes them',
  orphan: 'have a task beyond the one they ended with: "onceish orphans"',
} as const satisfies Record<keyof PurgeReport['kept'], string>

function printReport({ purged, byState, kept, payloads, ms }: PurgeReport, dryRun: boolean): void {
  const would = dryRun ? 'would be purged' : 'purged'
  if (purged > 0) print(table(['state', would], Object.entries(byState)), '')
  print(`${plural(purged, 'request')} ${would}; took ${duration(ms)}`)
  if (payloads > 0) print(`${plural(payloads, 'kept payload')} ${dryRun ? 'would be dropped' : 'dropped'}`)
  const reasons = Object.entries(kept) as [keyof typeof WHY_KEPT, number][]
  if (reasons.length > 0) {
    print(
      '',
      table(
        ['kept', 'why'],
        reasons.map(([reason, count]) => [count, WHY_KEPT[reason]]),
      ),
    )
  }
}
