import type { Command } from 'commander'
import { example } from '../arguments.ts'
import { readSettings, requireTarget, withStore } from '../context.ts'
import { print, printJson } from '../print.ts'

export function addResume(program: Command): void {
  program
    .command('resume')
    .description('end the pause of a target, whether a person, a "blocked" answer or a wait that the API told made it')
    .argument('<target>', 'its name in the config')
    .addHelpText('after', example('onceish resume transcribe'))
    .action(async (target: string, _options: object, command: Command) => {
      const settings = await readSettings(command)
      requireTarget(settings.config, target)
      await withStore(settings, { create: false }, async ({ once, isJson }) => {
        const resumed = await once.resume(target)
        if (isJson) printJson({ target, paused: false, resumed })
        else print(resumed ? `${target} is resumed` : `${target} was not paused: nothing was changed`)
      })
    })
}
