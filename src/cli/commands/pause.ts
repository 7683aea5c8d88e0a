import type { Command } from 'commander'
import { example } from '../arguments.ts'
import { readSettings, requireTarget, withStore } from '../context.ts'
import { print, printJson } from '../print.ts'

export function addPause(program: Command): void {
  program
    .command('pause')
    .description('start no more calls to a target until it is resumed; what is in doubt is still looked into')
    .argument('<target>', 'its name in the config')
    .option('--reason <text>', 'why, for those who see the pause')
    .addHelpText('after', example('onceish pause transcribe --reason "maintenance until 6 pm"'))
    .action(async (target: string, { reason }: { reason?: string }, command: Command) => {
      const settings = await readSettings(command)
      requireTarget(settings.config, target)
      await withStore(settings, { create: false }, async ({ once, isJson, next }) => {
        await once.pause(target, reason)
        if (isJson) printJson({ target, paused: true, pauseReason: reason ?? null })
        else print(`${target} is paused; ends with: ${next(`resume ${target}`)}`)
      })
    })
}
