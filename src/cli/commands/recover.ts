import type { Command } from 'commander'
import type { DryRunLine } from '../../recovery/dry-run.ts'
import { example, horizon } from '../arguments.ts'
import { type Context, readSettings, requireServed, withStore } from '../context.ts'
import { print, printJson, relative, table } from '../print.ts'
import { runWorker } from '../run-worker.ts'

interface RecoverOptions {
  readonly dryRun?: true
  readonly drainHorizon?: number
}

export function addRecover(program: Command): void {
  program
    .command('recover')
    .description('settle what is in doubt, replays included, without calling for anything that is only queued')
    .option('--dry-run', 'ask the lookups, say what would be done and why, and do nothing')
    .option('--drain-horizon <duration>', 'what can be decided only later than this is left (1h)', horizon)
    .addHelpText('after', example('onceish recover --dry-run', 'onceish recover'))
    .action(async ({ dryRun, drainHorizon }: RecoverOptions, command: Command) => {
      const settings = await readSettings(command)
      const served = requireServed(settings.config, undefined)
      const work = drainHorizon === undefined ? {} : { drain: { horizonMs: drainHorizon } }
      await withStore(settings, { create: false }, (context) =>
        dryRun
          ? printDryRun(context)
          : runWorker(context, {
              served,
              isPart: false,
              ends: true,
              start: (onProgress) => context.once.startRecovery({ ...work, onProgress }),
            }),
      )
    })
}

async function printDryRun({ once, isJson }: Context): Promise<void> {
  const lines: DryRunLine[] = []
  for await (const line of once.dryRun()) {
    if (isJson) printJson(line)
    else lines.push(line)
  }
  if (!isJson) print(lines.length === 0 ? 'recovery has nothing to look into' : dryRunTable(lines))
}

function dryRunTable(lines: readonly DryRunLine[]): string {
  const now = Date.now()
  return table(
    ['request', 'target', 'state', 'would', 'why', 'next at'],
    lines.map((line) => {
      const { requestId, target, state, would, why, nextAt } = line
      return [requestId, target, state, would, why, relative(nextAt, now) ?? 'now']
    }),
  )
}
