import type { Command } from 'commander'
import { DRAIN_HORIZON_MS } from '../../core/limits.ts'
import { isShared } from '../../core/store-address.ts'
import { durationMs, example, names, wholeNumber } from '../arguments.ts'
import { readSettings, requireServed, withStore } from '../context.ts'
import { plural } from '../print.ts'
import { runWorker } from '../run-worker.ts'

interface WorkOptions {
  readonly drain?: true
  readonly drainHorizon?: number
  readonly concurrency?: number
  readonly targets?: string[]
}

export function addWork(program: Command): void {
  program
    .command('work')
    .description('call the APIs for what is queued, and recover what is in doubt, until stopped')
    .option('--drain', 'end when nothing is queued, in doubt or due within the horizon')
    .option('--drain-horizon <duration>', 'what is due later than this is not waited for (1h)', durationMs)
    .option('--concurrency <n>', 'calls at a time to each target, instead of the config', wholeNumber(1, 10_000))
    .option('--targets <names>', 'serve only these, with commas between them', names)
    .addHelpText(
      'after',
      example('onceish work --drain', 'onceish work --concurrency 16 --targets transcribe,translate'),
    )
    .action(async ({ drain, drainHorizon, concurrency, targets }: WorkOptions, command: Command) => {
      const settings = await readSettings(command)
      const served = requireServed(settings.config, targets)
      if (!drain && process.stderr.isTTY)
        process.stderr.write(`serving ${plural(served.length, 'target')}; Ctrl-C stops\n`)
      const work = {
        ...(concurrency && { concurrency }),
        ...(targets && { targets }),
        ...(drain && { drain: { horizonMs: drainHorizon ?? DRAIN_HORIZON_MS } }),
      }
      // A worker of a fleet that found no store would wait for ever beside the one that it was meant for.
      await withStore(settings, { create: !isShared(settings.config.store) }, (context) =>
        runWorker(context, {
          served,
          isPart: targets !== undefined,
          ends: drain ?? false,
          start: (onProgress) => context.once.startWorker({ ...work, onProgress }),
        }),
      )
    })
}
