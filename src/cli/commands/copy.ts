import type { Command } from 'commander'
import { type CopyReport, copyStore, type UndoCopyReport, undoCopy } from '../../maintenance/copy.ts'
import { example, nonEmpty, usage } from '../arguments.ts'
import { actorName, type GlobalOptions } from '../context.ts'
import { duration, fields, plural, print, printJson } from '../print.ts'
import { startProgress } from '../progress.ts'
import { listenForSignals } from '../signals.ts'

interface Options extends GlobalOptions {
  readonly from: string
  readonly to: string
  readonly undo?: boolean
  readonly force?: boolean
}

export function addCopy(program: Command): void {
  program
    .command('copy')
    .description('move a store from its SQLite file to PostgreSQL; stop every worker before')
    .requiredOption('--from <path>', 'the SQLite file: nothing works on it from then on', nonEmpty)
    .requiredOption(
      '--to <url>',
      'postgres://user@host/database?schema=name (onceish); the password may stand in PGPASSWORD',
      nonEmpty,
    )
    .option('--undo', 'let the file be worked again, and nobody the copy')
    .option('--force', 'with --undo: also where the copy may have been worked, or cannot be reached')
    .addHelpText(
      'after',
      example(
        'onceish copy --from ./onceish.db --to postgres://onceish@db.example.com/shop',
        'onceish copy --from ./onceish.db --to postgres://onceish@db.example.com/shop --undo',
      ),
    )
    .action(async (_: object, command: Command) => {
      const options = command.optsWithGlobals<Options>()
      if (options.force && !options.undo) throw usage('--force goes with --undo only')
      if (options.undo) await runUndo(options)
      else await runCopy(options)
    })
}

async function runCopy({ from, to, json: isJson = false }: Options): Promise<void> {
  const progress = startProgress({ isJson, format: '{bar} {value}/{total} rows{note}', total: 1 })
  const signals = listenForSignals()
  try {
    const report = await copyStore({
      from,
      to,
      actor: actorName(),
      signal: signals.signal,
      onProgress: ({ phase, table, doneRows, rows }) =>
        progress.update(doneRows, rows, phase === 'verifying' ? `, verifying ${table}` : ` ${table}`),
    })
    progress.stop()
    if (isJson) printJson(report)
    else printReport(report)
  } catch (error) {
    const code = signals.exitCode()
    if (code === null) throw error
    process.exitCode = code
  } finally {
    progress.stop()
    signals.release()
  }
}

function printReport({ from, to, wasComplete, tables, rows, resumedAt, ms }: CopyReport): void {
  if (wasComplete) {
    print(`${from} was copied to ${to} before: nothing was done`)
    return
  }
  const kinds = Object.entries(tables).filter(([, table]) => table.rows > 0)
  print(
    fields([
      ['copied', `${from}, which nothing works on any more`],
      ['to', to],
      ['rows', `${rows} of ${plural(kinds.length, 'table')}, the same on both sides`],
      ...(resumedAt > 0 ? [['resumed', `behind ${plural(resumedAt, 'row')} of an earlier run`] as const] : []),
      ['took', duration(ms)],
      ['next', 'set "store" to it in the config, then start the workers'],
    ]),
  )
}

async function runUndo({ from, to, force = false, json: isJson = false }: Options): Promise<void> {
  const report = await undoCopy({ from, to, force, actor: actorName() })
  if (isJson) printJson(report)
  else print(...undone(report))
}

function undone({ from, to, mayHaveCalled }: UndoCopyReport): string[] {
  const lines = [`${from} is worked again, and nothing works on the copy in ${to}`]
  return mayHaveCalled
    ? [...lines, 'the copy may have called: nothing is called from here before "onceish recover --restored"']
    : lines
}
