import type { Command } from 'commander'
import type { DryRunLine } from '../../recovery/dry-run.ts'
import { example, horizon } from '../arguments.ts'
import { type Context, readSettings, requireServed, withStore } from '../context.ts'
import { checkStoreWord, type StoreWord, sayStoreWord, tryStoreWord } from '../foreign-store.ts'
import { print, printJson, relative, table } from '../print.ts'
import { runWorker } from '../run-worker.ts'

interface RecoverOptions extends StoreWord {
  readonly dryRun?: true
  readonly drainHorizon?: number
}

export function addRecover(program: Command): void {
  program
    .command('recover')
    .description('settle what is in doubt, replays included, without calling for anything that is only queued')
    .option('--dry-run', 'ask the lookups, say what would be done and why, and do nothing')
    .option('--drain-horizon <duration>', 'what can be decided only later than this is left (1h)', horizon)
    .option(
      '--restored',
      'the store was put back from a copy: what it owes may have been called since, and is put in doubt',
    )
    .option('--force', 'with --restored: also where nothing shows it, as when a whole disk was put back')
    .option('--moved', 'the store was moved here, and its old place is gone for good')
    .addHelpText('after', example('onceish recover --dry-run', 'onceish recover', 'onceish recover --restored'))
    .action(async (options: RecoverOptions, command: Command) => {
      const { dryRun, drainHorizon } = options
      checkStoreWord(options)
      const settings = await readSettings(command)
      const served = requireServed(settings.config, undefined)
      const work = drainHorizon === undefined ? {} : { drain: { horizonMs: drainHorizon } }
      await withStore(settings, { create: false }, async (context) => {
        if (dryRun) return options.restored ? tryStoreWord(context, options) : printDryRun(context)
        await sayStoreWord(context, options)
        return runWorker(context, {
          served,
          isPart: false,
          ends: true,
          start: (onProgress) => context.once.startRecovery({ ...work, onProgress }),
        })
      })
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
