import type { Command } from 'commander'
import { example, requestIds } from '../arguments.ts'
import { withExistingStore } from '../context.ts'
import { tellEach } from '../operator-result.ts'

export function addCancel(program: Command): void {
  program
    .command('cancel')
    .description('cancel requests; one in doubt is looked up first, and canceled at the API where it is found')
    .argument('<id...>', 'request ids', requestIds)
    .option('--note <text>', 'kept with the event')
    .addHelpText('after', example('onceish cancel 17 18 --note "ordered twice"'))
    .action((ids: number[], { note }: { note?: string }, command: Command) =>
      withExistingStore(command, (context) =>
        tellEach(context, ids, (id) => context.once.cancel(id, note === undefined ? {} : { note }), cancelNote),
      ),
    )
}

/** What a cancel of a request in doubt comes to is not known yet. */
function cancelNote(state: string): string {
  if (state === 'canceled') return ''
  return ': it is called no more; the next "onceish work" or "onceish recover" cancels its task, proves that there is none, or holds it'
}
