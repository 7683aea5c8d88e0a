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
    .action(({ force = false }: { force?: boolean }, command: Command) => {
      const path = resolve(NAME)
      refuseSecondConfig(force)
      writeConfig(path, force ? 'w' : 'wx')
      if (command.optsWithGlobals<GlobalOptions>().json) printJson({ path })
      else print(`wrote ${path}`, '', ...NEXT)
    })
}

const NEXT = [
  'Describe your API in it, then:',
  '  onceish targets',
  `  onceish enqueue --target example --payload '{"n":1}'`,
  '  onceish work --drain',
]

/** @throws OnceishError FILE_EXISTS, also for one of another kind: no command would know which of the two is meant. */
function refuseSecondConfig(force: boolean): void {
  const found = readdirSync('.').find((name) => /^onceish\.config\.\w+$/.test(name) && !(force && name === NAME))
  if (found === undefined) return
  const way = found === NAME ? 'edit it, or overwrite it with --force' : 'edit it, or move it away'
  throw new OnceishError('FILE_EXISTS', `${found} is here already and was left as it is: ${way}`)
}

function writeConfig(path: string, flag: 'w' | 'wx'): void {
  try {
    writeFileSync(path, CONFIG_TEMPLATE, { flag })
  } catch (error) {
    throw new OnceishError('FILE_UNWRITABLE', `cannot write ${path}: ${(error as Error).message}`, { cause: error })
  }
}
