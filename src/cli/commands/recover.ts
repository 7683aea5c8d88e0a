import type { Command } from 'commander'
import type { Config } from '../../config/config.ts'
import type { CareDefinition } from '../../config/target-definition.ts'
import type { DryRunLine } from '../../recovery/dry-run.ts'
import { durationMs, example } from '../arguments.ts'
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
    .option('--drain-horizon <duration>', 'what can be decided only later than this is left (1h)', durationMs)
    .option(
      '--restored',
      'the store was put back from a copy: what it owes may have been called since, and is put in doubt',
    )
    .option(
      '--force',
      'with --restored: also where nothing shows it (a whole disk was put back, a pg_dump was loaded into the same server), or targets are missing',
    )
    .option('--moved', 'the store was moved here, and its old place is gone for good')
    .addHelpText('after', example('onceish recover --dry-run', 'onceish recover', 'onceish recover --restored'))
    .action(async (options: RecoverOptions, command: Command) => {
      const { dryRun, drainHorizon } = options
      checkStoreWord(options)
      const settings = await readSettings(command)
      const served = requireServed(settings.config, dryRun ? lookedUp(settings.config) : undefined)
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

/** A dry run calls nothing else. */
function lookedUp({ targets }: Config): string[] {
  const isLookedUp = ({ lookup, recovery }: CareDefinition) => lookup !== null && recovery.includes('lookup')
  return Object.values(targets).flatMap((target) => (isLookedUp(target) ? [target.name] : []))
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
  const hasWindow = lines.some(({ windowClosesAt }) => windowClosesAt !== null)
  return table(
    ['request', 'target', 'state', 'would', 'rung', 'next', ...(hasWindow ? ['window closes'] : []), 'why'],
    lines.map((line) => {
      const { requestId, target, state, would, rung, says, windowClosesAt } = line
      const window = hasWindow ? [relative(windowClosesAt, now)] : []
      return [requestId, target, state, would, rung, relative(nextOf(line, now), now), ...window, says]
    }),
  )
}

/** What would be done at once is done when a worker that runs looks into it, or by `recover` then. */
function nextOf({ nextAt, checkAt, would }: DryRunLine, now: number): number | null {
  if (nextAt !== null || would === 'wait') return nextAt
  return Math.max(checkAt ?? now, now)
}
