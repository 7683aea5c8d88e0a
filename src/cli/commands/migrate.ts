import type { Command } from 'commander'
import { example } from '../arguments.ts'
import { readSettings, withStore } from '../context.ts'
import { print, printJson } from '../print.ts'

export function addMigrate(program: Command): void {
  program
    .command('migrate')
    .description('create the database, or bring it to the schema of this version')
    .addHelpText('after', example('onceish migrate'))
    .action(async (_options: object, command: Command) => {
      await withStore(await readSettings(command), { create: true }, async ({ once, isJson }) => {
        const { engine, location, schemaVersion } = await once.facts()
        if (isJson) printJson({ engine, location, schemaVersion })
        else print(`${location} has schema version ${schemaVersion}`)
      })
    })
}
