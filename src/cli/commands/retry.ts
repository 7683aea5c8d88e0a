import type { Command } from 'commander'
import { type Deadline, deadline, example, expiryOf, requestIds, usage } from '../arguments.ts'
import { withExistingStore } from '../context.ts'
import { tellEach } from '../operator-result.ts'
import { addEachOptions, type EachFlags, eachWordOf, runForEach } from '../say-to-each.ts'

interface RetryOptions extends EachFlags {
  readonly expiresAt?: Deadline
}

export function addRetry(program: Command): void {
  const command = program
    .command('retry')
    .description(
      'queue dead requests again, with a fresh retry budget: those named, or all dead ones that fit --target, --reason; refuses a request in doubt',
    )
    .argument('[id...]', 'request ids', requestIds)
    .option('--expires-at <time>', 'a new deadline, or "never": needed where the old one is over', deadline)
  addEachOptions(command)
    .addHelpText(
      'after',
      example('onceish retry 17 18 --note "the API is fixed"', 'onceish retry --target messages --reason rejected'),
    )
    .action((given: number[], options: RetryOptions, self: Command) => {
      const ids = given.length === 0 ? undefined : given
      const { target, reason, expiresAt } = options
      const isFiltered = target !== undefined || reason !== undefined
      if (ids === undefined && !isFiltered)
        throw usage('say which requests: their ids, or --target, --reason for all dead ones that fit')
      const word = { ...eachWordOf(options), ...(expiresAt !== undefined && { expiresAt: expiryOf(expiresAt) }) }
      return withExistingStore(self, async (context) => {
        if (ids !== undefined && !isFiltered && !word.dryRun) {
          await tellEach(context, ids, (id) => context.once.retry(id, word))
          return
        }
        const filter = { ...(ids && { ids }), ...(target && { target }), ...(reason && { reason }) }
        await runForEach(context, filter, (onEach) => context.once.retryWhere(filter, { ...word, onEach }))
      })
    })
}
