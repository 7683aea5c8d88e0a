import type { Command } from 'commander'
import { OnceishError } from '../../core/errors.ts'
import type { ListedOrphan, OrphanResult, OrphanView } from '../../store/views.ts'
import { example, orphanId, orphanIds, wholeNumber } from '../arguments.ts'
import { type Context, withExistingStore } from '../context.ts'
import { evidenceWords } from '../evidence.ts'
import { actionLines, orphanActions } from '../next-actions.ts'
import { tellOne } from '../operator-result.ts'
import { escapeControls, print, printJson, relative, shorten, table } from '../print.ts'
import { addWordOptions, type WordFlags, wordOf } from '../word.ts'

export function addOrphans(program: Command): void {
  const orphans = program
    .command('orphans')
    .description(
      'tasks that an API made although their request ended with another, or with none: second effects, to be looked at, then adopted or dismissed',
    )
    .option('--limit <n>', 'at most so many', wholeNumber(1, 1_000_000))
    .addHelpText(
      'after',
      example('onceish orphans', 'onceish orphans adopt 3', 'onceish orphans dismiss 3 --note "refunded"'),
    )
    .action(({ limit }: { limit?: number }, command: Command) =>
      withExistingStore(command, async (context) => printOrphans(await context.once.orphans(limit), context)),
    )
  const adopt = orphans
    .command('adopt')
    .description('it is the task of its request; the task that this had becomes the orphan')
    .argument('<orphan>', 'id of the orphan', orphanId)
    .option('--if-version <n>', 'refuse when the request has changed since', wholeNumber(0, Number.MAX_SAFE_INTEGER))
  addWordOptions(adopt)
    .addHelpText('after', example('onceish orphans adopt 3 --note "the other one was refunded"'))
    .action((id: number, { ifVersion, ...flags }: WordFlags & { readonly ifVersion?: number }, command: Command) =>
      withExistingStore(command, async ({ once, isJson }) => {
        const word = { ...wordOf(flags), ...(ifVersion !== undefined && { ifVersion }) }
        printDone(id, await once.adoptOrphan(id, word), isJson)
      }),
    )
  const dismiss = orphans
    .command('dismiss')
    .description('it has been dealt with: it is listed no more, and its request may be purged')
    .argument('<orphan...>', 'ids of orphans', orphanIds)
  addWordOptions(dismiss)
    .addHelpText('after', example('onceish orphans dismiss 3 4 --note "both canceled in their dashboard"'))
    .action((ids: number[], flags: WordFlags, command: Command) =>
      withExistingStore(command, async ({ once, isJson }) => {
        for (const id of new Set(ids)) {
          const result = await once.dismissOrphan(id, wordOf(flags))
          tellOne({ orphanId: id, result: result.kind }, ids.length, isJson, () => printDone(id, result, isJson))
        }
      }),
    )
}

function printOrphans(orphans: readonly ListedOrphan[], { isJson, next }: Context): void {
  const jsonOf = (orphan: ListedOrphan) => ({ ...orphan, next: orphanActions(orphan).map(({ words }) => next(words)) })
  if (isJson) for (const orphan of orphans) printJson(jsonOf(orphan))
  else if (orphans.length === 0) print('no orphans')
  else {
    print(orphanTable(orphans))
    for (const orphan of orphans) {
      print('', escapeControls(`orphan ${orphan.orphanId}: ${settledWords(orphan)}`))
      print(actionLines(orphanActions(orphan), next))
    }
  }
}

function settledWords({ requestId, taskId, request, evidence }: ListedOrphan): string {
  const seen = evidence === null ? '' : ` (${shorten(evidenceWords(evidence), 200)})`
  if (request === null) return `the API made task ${taskId}${seen}; request ${requestId} was purged`
  const settled = request.taskId === null ? 'has no task' : `has task ${request.taskId}`
  return `the API made task ${taskId}${seen}; request ${requestId} is ${request.state} and ${settled}`
}

/** @throws OnceishError ORPHAN_NOT_FOUND, STATE_REFUSED, VERSION_CHANGED */
function printDone(orphanId: number, result: OrphanResult, isJson: boolean): void {
  if (result.kind === 'not_found')
    throw new OnceishError(
      'ORPHAN_NOT_FOUND',
      `no orphan ${orphanId} in this store: "onceish orphans" shows which there are`,
    )
  if (result.kind === 'refused')
    throw new OnceishError('STATE_REFUSED', `orphan ${orphanId}: ${result.why}; nothing was changed`)
  if (result.kind === 'version_changed') {
    const { requestId, request } = result.orphan
    const now = request === null ? 'it was purged' : `it is ${request.state}, version ${request.version} now`
    throw new OnceishError('VERSION_CHANGED', `request ${requestId} has changed since: ${now}; nothing was changed`)
  }
  const orphan = result.kind === 'applied' ? result.orphan : null
  if (isJson) printJson({ orphanId, result: result.kind, orphan })
  else
    print(
      escapeControls(orphan === null ? `orphan ${orphanId} was dealt with before: nothing was changed` : told(orphan)),
    )
}

function told({ orphanId, requestId, taskId, request }: ListedOrphan): string {
  const isAdopted = request?.taskId === taskId
  return isAdopted
    ? `orphan ${orphanId} is the task of request ${requestId}, which is ${request?.state}: ${taskId}`
    : `orphan ${orphanId} is dismissed: task ${taskId} of request ${requestId}`
}

export function orphanTable(orphans: readonly OrphanView[]): string {
  const now = Date.now()
  return table(
    ['orphan', 'request', 'target', 'attempt', 'task at the API', 'found'],
    orphans.map(({ orphanId, requestId, target, attempt, taskId, foundAt }) => [
      orphanId,
      requestId,
      target,
      attempt,
      taskId,
      relative(foundAt, now),
    ]),
  )
}
