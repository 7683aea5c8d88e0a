// What every word of a person takes: whose it is, and what they add.
import type { Command } from 'commander'
import type { WordOptions } from '../api.ts'
import { nonEmpty } from './arguments.ts'

export interface WordFlags {
  readonly actor?: string
  readonly note?: string
}

export function addWordOptions(command: Command): Command {
  return command.option('--actor <name>', 'whose word it is', nonEmpty).option('--note <text>', 'kept with the event')
}

export function wordOf({ actor, note }: WordFlags): Pick<WordOptions, 'actor' | 'note'> {
  return { ...(actor && { actor }), ...(note && { note }) }
}
