import type { Command } from 'commander'
import type { Check } from '../../maintenance/doctor/check.ts'
import { diagnose } from '../../maintenance/doctor/diagnose.ts'
import { example } from '../arguments.ts'
import { readSettings } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { escapeControls, print, printJson } from '../print.ts'

export function addDoctor(program: Command): void {
  program
    .command('doctor')
    .description('look at the store, the machine and the work for what is wrong, and say what to do; changes nothing')
    .option('--full', 'look at every page of the database, however large it is')
    .addHelpText('after', example('onceish doctor', 'onceish doctor --full --json'))
    .action(async ({ full = false }: { full?: boolean }, command: Command) => {
      const { config, isJson, next } = await readSettings(command)
      const checks = await diagnose({ config, isFull: full, next })
      for (const check of checks) {
        if (isJson) printJson(check)
        else printCheck(check)
      }
      process.exitCode = exitCodeOf(checks)
    })
}

const NAME_WIDTH = 16

function printCheck({ name, ok, found, advice }: Check): void {
  print(`${ok.padEnd(5)} ${name.padEnd(NAME_WIDTH)} ${escapeControls(found)}`)
  if (advice !== null) print(`${' '.repeat(6)}${escapeControls(`-> ${advice}`)}`)
}

function exitCodeOf(checks: readonly Check[]): number {
  if (checks.some(({ ok }) => ok === 'fail')) return EXIT.failed
  return checks.some(({ ok }) => ok === 'warn') ? EXIT.needsPerson : EXIT.done
}
