import type { Command } from 'commander'
import type { SaidRequest } from '../../recovery/say-to-each.ts'
import { example, oneOf, requestIds } from '../arguments.ts'
import { withExistingStore } from '../context.ts'
import { tellEach } from '../operator-result.ts'
import { plural, print } from '../print.ts'
import { addEachOptions, type EachFlags, eachFilterOf, eachWordOf, runForEach } from '../say-to-each.ts'

interface CancelOptions extends EachFlags {
  readonly state?: (typeof STATES)[number]
}

const STATES = ['ready', 'scheduled', 'dead', 'held', 'unknown'] as const

export function addCancel(program: Command): void {
  const command = program
    .command('cancel')
    .description(
      'cancel requests: those named, or all queued ones that fit --target, --reason, --group, --state; one in doubt is looked up first, and canceled at the API where it is found',
    )
    .argument('[id...]', 'request ids', requestIds)
    .option(
      '--state <state>',
      `those in this state: ${STATES.join(', ')} (without ids: ready and scheduled)`,
      oneOf(STATES),
    )
  addEachOptions(command)
    .addHelpText(
      'after',
      example(
        'onceish cancel 17 18 --note "ordered twice"',
        'onceish cancel --group customer-7 --note "left" --dry-run',
      ),
    )
    .action((given: number[], options: CancelOptions, self: Command) => {
      const { filter, isByIdAlone } = eachFilterOf(given, options)
      const word = eachWordOf(options)
      return withExistingStore(self, async (context) => {
        if (isByIdAlone && !word.dryRun) {
          await tellEach(context, given, (id) => context.once.cancel(id, word), noteOf)
          return
        }
        let inDoubt = 0
        await runForEach(context, filter, (onEach) =>
          context.once.cancelWhere(filter, {
            ...word,
            onEach: (said: SaidRequest) => {
              if (said.result === 'applied' && said.state !== 'canceled') inDoubt++
              onEach(said)
            },
          }),
        )
        if (inDoubt > 0 && !context.isJson) print(`${plural(inDoubt, 'request')} of these in doubt${FROM_DOUBT}`)
      })
    })
}

/** What a cancel of a request in doubt comes to is not known yet. */
const FROM_DOUBT =
  ': called no more; the next "onceish work" or "onceish recover" cancels the task, proves that there is none, or holds it'

function noteOf(state: string): string {
  return state === 'canceled' ? '' : FROM_DOUBT
}
