import type { Command } from 'commander'
import type { BackupReport } from '../../maintenance/backup.ts'
import { example, nonEmpty } from '../arguments.ts'
import { type Context, withExistingStore } from '../context.ts'
import { duration, fields, instant, print, printJson } from '../print.ts'
import { startProgress } from '../progress.ts'
import { listenForSignals } from '../signals.ts'

export function addBackup(program: Command): void {
  program
    .command('backup')
    .description(
      'a verified copy of a SQLite store in a new file, while workers go on; of one on PostgreSQL its server makes the backups (pg_basebackup)',
    )
    .argument('<file>', 'where to; nothing is overwritten', nonEmpty)
    .addHelpText('after', example('onceish backup /backups/onceish-monday.db'))
    .action((file: string, _options: object, command: Command) =>
      withExistingStore(command, (context) => runBackup(context, file)),
    )
}

async function runBackup({ once, isJson }: Context, file: string): Promise<void> {
  const progress = startProgress({ isJson, format: '{bar} {value}/{total} pages{note}', total: 1 })
  // What was copied so far is removed before the process ends.
  const signals = listenForSignals()
  try {
    const report = await once.backup(file, {
      signal: signals.signal,
      onProgress: ({ copiedPages, pages }) =>
        progress.update(copiedPages, pages, copiedPages === pages ? ', verifying' : ''),
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

function printReport({ path, bytes, pages, highWaterAt, ms }: BackupReport): void {
  print(
    fields([
      ['copy', path],
      ['size', `${bytes} bytes, ${pages} pages`],
      ['calls until', instant(highWaterAt)],
      ['took', duration(ms)],
    ]),
  )
}
