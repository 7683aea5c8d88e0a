import type { Command } from 'commander'
import { MAX_PRIORITY } from '../../core/limits.ts'
import { QUEUED_STATES, type QueuedState } from '../../core/task-state.ts'
import type { SaidRequest } from '../../recovery/say-to-each.ts'
import { example, oneOf, requestIds, wholeNumber } from '../arguments.ts'
import { withExistingStore } from '../context.ts'
import { addEachOptions, type EachFlags, eachFilterOf, eachWordOf, runForEach } from '../say-to-each.ts'

interface ReprioritizeOptions extends EachFlags {
  readonly priority: number
  readonly state?: QueuedState
}

export function addReprioritize(program: Command): void {
  const command = program
    .command('reprioritize')
    .description(
      'move queued requests to where another priority puts them: those named, or all that fit --target, --reason, --group, --state; one that is in doubt keeps it for its return to the queue',
    )
    .argument('[id...]', 'request ids', requestIds)
    .requiredOption('--priority <n>', 'higher goes first', wholeNumber(-MAX_PRIORITY, MAX_PRIORITY))
    .option('--state <state>', 'those in this state: ready or scheduled (both without it)', oneOf(QUEUED_STATES))
  addEachOptions(command)
    .addHelpText(
      'after',
      example(
        'onceish reprioritize 17 18 --priority 9 --note "the customer waits"',
        'onceish reprioritize --target messages --state scheduled --priority -1 --dry-run',
      ),
    )
    .action((given: number[], options: ReprioritizeOptions, self: Command) => {
      const { filter } = eachFilterOf(given, options)
      const { priority } = options
      const word = eachWordOf(options)
      return withExistingStore(self, (context) => {
        const say = (onEach: (said: SaidRequest) => void) =>
          context.once.reprioritizeWhere(filter, priority, { ...word, onEach })
        return runForEach(context, filter, say, 'priority')
      })
    })
}
