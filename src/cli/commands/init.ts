import { readdirSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { OnceishError } from '../../core/errors.ts'
import { example } from '../arguments.ts'
import { CONFIG_TEMPLATE } from '../config-template.ts'
import type { GlobalOptions } from '../context.ts'
import { print, printJson } from '../print.ts'

const NAME = 'onceish.config.yaml'

export function addInit(program: Command): void {
  program
    .command('init')
    .description(`write a commented ${NAME} into this folder`)
    .option('--force', 'overwrite it')
    .addHelpText('after', example('onceish init'))
    .action(({ force }: { force?: true }, command: Command) => {
      const path = resolve(NAME)
      if (!force) refuseSecondConfig()
      writeConfig(path, force ? 'w' : 'wx')
      if (command.optsWithGlobals<GlobalOptions>().json) return printJson({ path })
      print(
        `wrote ${path}`,
        '',
        'Describe your API in it, then:',
        '  onceish targets',
        `  onceish enqueue --target example --payload '{"n":1}'`,
        '  onceish work --drain',
      )
    })
}

/** @throws OnceishError FILE_EXISTS, whatever its extension: two configs in a folder are refused by every command. */
function refuseSecondConfig(): void {
  const found = readdirSync('.').find((name) => /^onceish\.config\.\w+$/.test(name))
  if (found !== undefined) throw exists(found)
}

function exists(name: string): OnceishError {
  return new OnceishError(
    'FILE_EXISTS',
    `${name} is here already and was left as it is: edit it, or overwrite ${NAME} with --force`,
  )
}

function writeConfig(path: string, flag: 'w' | 'wx'): void {
  try {
    writeFileSync(path, CONFIG_TEMPLATE, { flag })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw exists(NAME)
    throw new OnceishError('FILE_UNWRITABLE', `cannot write ${path}: ${(error as Error).message}`, { cause: error })
  }
}
