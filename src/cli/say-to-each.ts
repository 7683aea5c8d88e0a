// One word for many requests: each is told on a line, and then in numbers what became of all.
import type { Command } from 'commander'
import type { EachOptions } from '../api.ts'
import type { RequestState } from '../core/task-state.ts'
import type { EachFilter, SaidReport, SaidRequest } from '../recovery/say-to-each.ts'
import { nonEmpty, usage } from './arguments.ts'
import { type Context, requireSeen } from './context.ts'
import { EXIT } from './exit-codes.ts'
import { escapeControls, plural, print, printJson } from './print.ts'
import { addWordOptions, type WordFlags, wordOf } from './word.ts'

export interface EachFlags extends WordFlags {
  readonly target?: string
  readonly reason?: string
  readonly group?: string
  readonly dryRun?: true
}

/** What every word for many takes. */
export function addEachOptions(command: Command): Command {
  command
    .option('--target <name>', 'those of this target', nonEmpty)
    .option('--reason <word>', 'those with this reason, as "onceish list" shows it', nonEmpty)
    .option('--group <name>', 'those of this group', nonEmpty)
  return addWordOptions(command).option('--dry-run', 'say what would be done to which, and change nothing')
}

/**
 * Which requests a word is for.
 * @throws OnceishError USAGE where neither ids nor options say.
 */
export function eachFilterOf(
  given: readonly number[],
  { target, reason, group, state }: EachFlags & { readonly state?: RequestState },
): { readonly filter: EachFilter; readonly isByIdAlone: boolean } {
  const fits = {
    ...(target && { target }),
    ...(reason && { reason }),
    ...(group && { group }),
    ...(state && { state }),
  }
  const isByIdAlone = Object.keys(fits).length === 0
  if (given.length === 0 && isByIdAlone)
    throw usage('say which requests: their ids, or options such as --target and --reason for all that fit')
  return { filter: { ...(given.length > 0 && { ids: given }), ...fits }, isByIdAlone }
}

export function eachWordOf({ dryRun, ...word }: EachFlags): Pick<EachOptions, 'actor' | 'note' | 'dryRun'> {
  return { ...wordOf(word), ...(dryRun && { dryRun }) }
}

export async function runForEach(
  context: Context,
  filter: EachFilter,
  say: (onEach: (said: SaidRequest) => void) => Promise<SaidReport>,
  tells: 'state' | 'priority' = 'state',
): Promise<void> {
  const { isJson } = context
  const isNamed = filter.ids !== undefined
  if (filter.target !== undefined) await requireSeen(context, filter.target)
  const report = await say((said) => (isJson ? printJson(said) : printSaid(said, tells)))
  const refused = Object.values(report.refused).reduce((sum, count) => sum + count, 0)
  if (refused > 0) process.exitCode = EXIT.failed
  if (isJson) printJson({ summary: report })
  else print(...summaryOf(report, isNamed))
}

function printSaid(
  { requestId, target, from, state, taskId, priority, result, why }: SaidRequest,
  tells: 'state' | 'priority',
): void {
  const named = target === null ? `request ${requestId}` : `request ${requestId} of ${target}`
  const task = taskId === null ? '' : `, task ${taskId}`
  const became = tells === 'priority' ? `${state}, priority ${priority}` : `${from} -> ${state}${task}`
  const stays = tells === 'priority' ? `priority ${priority}` : state
  if (result === 'applied') print(escapeControls(`${named}: ${became}`))
  else if (result === 'unchanged') print(escapeControls(`${named}: ${stays} already`))
  else process.stderr.write(`${escapeControls(`${named}${state === null ? '' : ` is ${state}`}: ${why}`)}\n`)
}

function summaryOf({ applied, unchanged, refused, dryRun }: SaidReport, isNamed: boolean): string[] {
  const counts: [number, string][] = [
    [applied, dryRun ? 'would change' : 'changed'],
    [unchanged, 'as asked already'],
    [refused.refused, 'refused'],
    [refused.versionChanged, 'refused, changed meanwhile'],
    [refused.notFound, 'not found'],
  ]
  const told = counts.filter(([count]) => count > 0)
  if (told.length === 0) return [`no request ${isNamed ? 'is named' : 'fits'}: nothing was changed`]
  const total = told.reduce((sum, [count]) => sum + count, 0)
  const words = told.map(([count, what]) => `${count} ${what}`).join(', ')
  return [`${plural(total, 'request')}: ${words}${dryRun ? '; nothing was changed (--dry-run)' : ''}`]
}
