import { type Command, InvalidArgumentError } from 'commander'
import { MAX_TASK_ID_CHARS } from '../../core/limits.ts'
import type { Resolution } from '../../store/views.ts'
import {
  type Deadline,
  deadline,
  example,
  expiryOf,
  nonEmpty,
  oneOf,
  requestIds,
  usage,
  wholeNumber,
} from '../arguments.ts'
import { withExistingStore } from '../context.ts'
import { TASK_PLACEHOLDER } from '../next-actions.ts'
import { assertApplied, printApplied } from '../operator-result.ts'
import { addEachOptions, type EachFlags, eachFilterOf, eachWordOf, runForEach } from '../say-to-each.ts'

interface ResolveOptions extends EachFlags {
  readonly taskId?: string
  readonly notExecuted?: true
  readonly retryAcceptingDuplicates?: true
  readonly abandon?: true
  readonly expiresAt?: Deadline
  readonly state?: (typeof DOUBT)[number]
  readonly ifVersion?: number
  readonly force?: true
}

const DOUBT = ['held', 'unknown'] as const

export function addResolve(program: Command): void {
  const command = program
    .command('resolve')
    .description(
      "a person's word on requests in doubt: exactly one of --task-id, --not-executed, --retry-accepting-duplicates, --abandon; for those named, or all held ones that fit --target, --reason, --group, --state",
    )
    .argument('[id...]', 'request ids', requestIds)
    .option('--task-id <task>', 'it happened, and this is its id at the API (one request)', taskId)
    .option('--not-executed', 'it did not happen: call again, under the same key where there is one')
    .option('--retry-accepting-duplicates', 'call again as something new, even if it may have happened')
    .option('--abandon', 'give it up; that it is in doubt stays on record')
    .option('--expires-at <time>', 'with --retry-accepting-duplicates: a new deadline, or "never"', deadline)
    .option('--state <state>', 'those in this state: held (the default without ids) or unknown', oneOf(DOUBT))
    .option(
      '--if-version <n>',
      'refuse when it has changed since you saw this version (one request)',
      wholeNumber(0, Number.MAX_SAFE_INTEGER),
    )
    .option('--force', 'do not wait until the last call can surely not land any more')
  addEachOptions(command)
    .addHelpText(
      'after',
      example(
        'onceish resolve 17 --task-id job_8f3a --if-version 4 --note "seen in their dashboard"',
        'onceish resolve --target messages --reason opaque --not-executed --dry-run',
      ),
    )
    .action(async (given: number[], options: ResolveOptions, self: Command) => {
      const resolution = resolutionOf(options)
      const { ifVersion, force = false } = options
      const { filter, isByIdAlone } = eachFilterOf(given, options)
      const isOne = given.length === 1
      if (!isOne && options.taskId !== undefined) throw usage('--task-id is of one request: give one id')
      if (!isOne && ifVersion !== undefined) throw usage('--if-version is of one request: give one id')
      const word = { ...eachWordOf(options), ...(ifVersion !== undefined && { ifVersion }), force }
      await withExistingStore(self, async (context) => {
        const [only] = given
        if (only !== undefined && isOne && isByIdAlone && !word.dryRun) {
          const result = await context.once.resolve(only, resolution, word)
          assertApplied(only, result)
          printApplied(result, context.isJson)
          return
        }
        await runForEach(context, filter, (onEach) =>
          context.once.resolveWhere(filter, resolution, { ...word, onEach }),
        )
      })
    })
}

/** @throws OnceishError USAGE unless exactly one is given. */
function resolutionOf(options: ResolveOptions): Resolution {
  const given: Resolution[] = []
  if (options.taskId !== undefined) given.push({ kind: 'task_id', taskId: options.taskId })
  if (options.notExecuted) given.push({ kind: 'not_executed' })
  const { expiresAt } = options
  if (options.retryAcceptingDuplicates)
    given.push({
      kind: 'retry_accepting_duplicates',
      ...(expiresAt !== undefined && { expiresAt: expiryOf(expiresAt) }),
    })
  else if (expiresAt !== undefined) throw usage('--expires-at goes with --retry-accepting-duplicates')
  if (options.abandon) given.push({ kind: 'abandon' })
  const [resolution] = given
  if (resolution !== undefined && given.length === 1) return resolution
  throw usage(
    `say exactly one of --task-id T (it happened), --not-executed (it did not), --retry-accepting-duplicates, --abandon; ${given.length} given`,
  )
}

function taskId(text: string): string {
  if (text === TASK_PLACEHOLDER) throw new InvalidArgumentError('Put the id that the API shows in its place.')
  if (nonEmpty(text).length <= MAX_TASK_ID_CHARS) return text
  throw new InvalidArgumentError(`It is longer than ${MAX_TASK_ID_CHARS} characters.`)
}
