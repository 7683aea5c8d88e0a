import type { Command } from 'commander'
import { example, requestIds } from '../arguments.ts'
import { withExistingStore } from '../context.ts'
import { tellEach } from '../operator-result.ts'

export function addRetry(program: Command): void {
  program
    .command('retry')
    .description('queue dead requests again, with a fresh retry budget; refuses a request in doubt')
    .argument('<id...>', 'request ids', requestIds)
    .option('--note <text>', 'kept with the event')
    .addHelpText('after', example('onceish retry 17 18 --note "the API is fixed"'))
    .action((ids: number[], { note }: { note?: string }, command: Command) =>
      withExistingStore(command, (context) =>
        tellEach(context, ids, (id) => context.once.retry(id, note === undefined ? {} : { note })),
      ),
    )
}
