import type { Command } from 'commander'
import { type Deadline, deadline, example, expiryOf, requestIds } from '../arguments.ts'
import { withExistingStore } from '../context.ts'
import { tellEach } from '../operator-result.ts'
import { addEachOptions, type EachFlags, eachFilterOf, eachWordOf, runForEach } from '../say-to-each.ts'

interface RetryOptions extends EachFlags {
  readonly expiresAt?: Deadline
}

export function addRetry(program: Command): void {
  const command = program
    .command('retry')
    .description(
      'queue dead requests again, with a fresh retry budget: those named, or all dead ones that fit --target, --reason, --group; refuses a request in doubt',
    )
    .argument('[id...]', 'request ids', requestIds)
    .option('--expires-at <time>', 'a new deadline, or "never": needed where the old one is over', deadline)
  addEachOptions(command)
    .addHelpText(
      'after',
      example('onceish retry 17 18 --note "the API is fixed"', 'onceish retry --target messages --reason rejected'),
    )
    .action((given: number[], options: RetryOptions, self: Command) => {
      const { filter, isByIdAlone } = eachFilterOf(given, options)
      const { expiresAt } = options
      const word = { ...eachWordOf(options), ...(expiresAt !== undefined && { expiresAt: expiryOf(expiresAt) }) }
      return withExistingStore(self, async (context) => {
        if (isByIdAlone && !word.dryRun) {
          await tellEach(context, given, (id) => context.once.retry(id, word))
          return
        }
        await runForEach(context, filter, (onEach) => context.once.retryWhere(filter, { ...word, onEach }))
      })
    })
}
