import { readdirSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { neededEnv } from '../../config/environment.ts'
import { loadConfig } from '../../config/load-config.ts'
import { OnceishError } from '../../core/errors.ts'
import { example, nonEmpty } from '../arguments.ts'
import { CONFIG_TEMPLATE } from '../config-template.ts'
import type { GlobalOptions } from '../context.ts'
import { listPresets, readPreset } from '../presets.ts'
import { fields, print, printJson } from '../print.ts'

const NAME = 'onceish.config.yaml'
const LIST = 'list'

export function addInit(program: Command): void {
  program
    .command('init')
    .description(`write a commented ${NAME} into this folder`)
    .option('--force', 'overwrite it')
    .option('--preset <name>', `the description of a real API, with its sources; "${LIST}" shows them all`, nonEmpty)
    .addHelpText('after', () => `\nPresets:\n${presetLines()}`)
    .addHelpText('after', example('onceish init', 'onceish init --preset stripe'))
    .action(async ({ force = false, preset }: { force?: boolean; preset?: string }, command: Command) => {
      const isJson = command.optsWithGlobals<GlobalOptions>().json ?? false
      if (preset === LIST) return printPresets(isJson)
      // Before anything is refused for what stands in the folder: a wrong name is wrong anywhere.
      const text = preset === undefined ? CONFIG_TEMPLATE : readPreset(preset)
      const path = resolve(NAME)
      refuseSecondConfig(force)
      writeConfig(path, text, force ? 'w' : 'wx')
      if (isJson) printJson(preset === undefined ? { path } : { path, preset })
      else print(`wrote ${path}`, '', ...(preset === undefined ? NEXT : await nextOfPreset(path)))
    })
}

const NEXT = [
  'Describe your API in it, then:',
  '  onceish targets',
  `  onceish enqueue --target example --payload '{"n":1}'`,
  '  onceish work --drain',
]

async function nextOfPreset(path: string): Promise<string[]> {
  const config = await loadConfig({ file: path })
  const [target] = Object.keys(config.targets)
  return [
    'Read its comments, edit what they name, set the secrets, then:',
    '  onceish targets',
    `  onceish enqueue --target ${target} --payload '{...}'`,
    `  ${neededEnv(config)
      .map((name) => `${name}=... `)
      .join('')}onceish work --drain`,
  ]
}

function printPresets(isJson: boolean): void {
  if (isJson) for (const preset of listPresets()) printJson(preset)
  else print(presetLines().replaceAll(/^ {2}/gm, ''))
}

function presetLines(): string {
  return fields(listPresets().map(({ name, summary }) => [name, summary])).replaceAll(/^/gm, '  ')
}

/** @throws OnceishError FILE_EXISTS, also for one of another kind: no command would know which of the two is meant. */
function refuseSecondConfig(force: boolean): void {
  const found = readdirSync('.').find((name) => /^onceish\.config\.\w+$/.test(name) && !(force && name === NAME))
  if (found === undefined) return
  const way = found === NAME ? 'edit it, or overwrite it with --force' : 'edit it, or move it away'
  throw new OnceishError('FILE_EXISTS', `${found} is here already and was left as it is: ${way}`)
}

function writeConfig(path: string, text: string, flag: 'w' | 'wx'): void {
  try {
    writeFileSync(path, text, { flag })
  } catch (error) {
    throw new OnceishError('FILE_UNWRITABLE', `cannot write ${path}: ${(error as Error).message}`, { cause: error })
  }
}
