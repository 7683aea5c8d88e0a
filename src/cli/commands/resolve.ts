import { type Command, InvalidArgumentError } from 'commander'
import type { WordOptions } from '../../api.ts'
import { MAX_TASK_ID_CHARS } from '../../core/limits.ts'
import type { Resolution } from '../../store/views.ts'
import { example, nonEmpty, requestId, usage, wholeNumber } from '../arguments.ts'
import { withExistingStore } from '../context.ts'
import { assertApplied, printApplied } from '../operator-result.ts'

interface ResolveOptions extends WordOptions {
  readonly taskId?: string
  readonly notExecuted?: true
  readonly retryAcceptingDuplicates?: true
  readonly abandon?: true
  readonly force?: true
}

export function addResolve(program: Command): void {
  program
    .command('resolve')
    .description(
      "a person's word on a request in doubt: exactly one of --task-id, --not-executed, --retry-accepting-duplicates, --abandon",
    )
    .argument('<id>', 'request id', requestId)
    .option('--task-id <task>', 'it happened, and this is its id at the API', taskId)
    .option('--not-executed', 'it did not happen: call again, under the same key')
    .option('--retry-accepting-duplicates', 'call again as something new, even if it may have happened')
    .option('--abandon', 'give it up; that it is in doubt stays on record')
    .option(
      '--if-version <n>',
      'refuse when it has changed since you saw this version',
      wholeNumber(0, Number.MAX_SAFE_INTEGER),
    )
    .option('--actor <name>', 'whose word it is', nonEmpty)
    .option('--note <text>', 'kept with the event')
    .option('--force', 'do not wait until the last call can surely not land any more')
    .addHelpText(
      'after',
      example(
        'onceish resolve 17 --task-id job_8f3a --if-version 4 --note "seen in their dashboard"',
        'onceish resolve 17 --not-executed',
      ),
    )
    .action(async (id: number, options: ResolveOptions, command: Command) => {
      const resolution = resolutionOf(options)
      const { actor, note, ifVersion, force = false } = options
      const word = {
        ...(actor && { actor }),
        ...(note && { note }),
        ...(ifVersion !== undefined && { ifVersion }),
        force,
      }
      await withExistingStore(command, async ({ once, isJson }) => {
        const result = await once.resolve(id, resolution, word)
        assertApplied(id, result)
        printApplied(result, isJson)
      })
    })
}

/** @throws OnceishError USAGE unless exactly one is given. */
function resolutionOf(options: ResolveOptions): Resolution {
  const given: Resolution[] = []
  if (options.taskId !== undefined) given.push({ kind: 'task_id', taskId: options.taskId })
  if (options.notExecuted) given.push({ kind: 'not_executed' })
  if (options.retryAcceptingDuplicates) given.push({ kind: 'retry_accepting_duplicates' })
  if (options.abandon) given.push({ kind: 'abandon' })
  const [resolution] = given
  if (resolution !== undefined && given.length === 1) return resolution
  throw usage(
    `say exactly one of --task-id T (it happened), --not-executed (it did not), --retry-accepting-duplicates, --abandon; ${given.length} given`,
  )
}

function taskId(text: string): string {
  if (nonEmpty(text).length <= MAX_TASK_ID_CHARS) return text
  throw new InvalidArgumentError(`It is longer than ${MAX_TASK_ID_CHARS} characters.`)
}
