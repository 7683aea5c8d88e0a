import type { Command } from 'commander'
import type { OrphanView } from '../../store/views.ts'
import { example, wholeNumber } from '../arguments.ts'
import { withExistingStore } from '../context.ts'
import { print, printJson, relative, table } from '../print.ts'

export function addOrphans(program: Command): void {
  program
    .command('orphans')
    .description(
      'tasks that a late answer named although their request ended with another: second effects, to be looked at',
    )
    .option('--limit <n>', 'at most so many', wholeNumber(1, 1_000_000))
    .addHelpText('after', example('onceish orphans --json'))
    .action(({ limit }: { limit?: number }, command: Command) =>
      withExistingStore(command, async ({ once, isJson }) => {
        const orphans = await once.orphans(limit)
        if (isJson) for (const orphan of orphans) printJson(orphan)
        else print(orphans.length === 0 ? 'no orphans' : orphanTable(orphans))
      }),
    )
}

export function orphanTable(orphans: readonly OrphanView[]): string {
  const now = Date.now()
  return table(
    ['request', 'target', 'attempt', 'task at the API', 'found'],
    orphans.map(({ requestId, target, attempt, taskId, foundAt }) => [
      requestId,
      target,
      attempt,
      taskId,
      relative(foundAt, now),
    ]),
  )
}
