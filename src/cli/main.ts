#!/usr/bin/env node
// The command line's entry: knows the commands, turns how they end into exit codes, and leaves nothing unsaid.
import { Command } from 'commander'
import { readVersion } from '../config/version.ts'
import { example, nonEmpty } from './arguments.ts'
import { addBackup } from './commands/backup.ts'
import { addCancel } from './commands/cancel.ts'
import { addCopy } from './commands/copy.ts'
import { addDoctor } from './commands/doctor.ts'
import { addEnqueue } from './commands/enqueue.ts'
import { addInit } from './commands/init.ts'
import { addList } from './commands/list.ts'
import { addMigrate } from './commands/migrate.ts'
import { addOrphans } from './commands/orphans.ts'
import { addPause } from './commands/pause.ts'
import { addPurge } from './commands/purge.ts'
import { addRecover } from './commands/recover.ts'
import { addReprioritize } from './commands/reprioritize.ts'
import { addResolve } from './commands/resolve.ts'
import { addResume } from './commands/resume.ts'
import { addRetry } from './commands/retry.ts'
import { addShow } from './commands/show.ts'
import { addStatus } from './commands/status.ts'
import { addTargets } from './commands/targets.ts'
import { addWork } from './commands/work.ts'
import { EXIT, exitCodeOf, isAnswered, printError } from './exit-codes.ts'

/** In the order of the help. */
const COMMANDS = [
  addInit,
  addMigrate,
  addTargets,
  addEnqueue,
  addWork,
  addRecover,
  addStatus,
  addList,
  addShow,
  addRetry,
  addResolve,
  addCancel,
  addReprioritize,
  addOrphans,
  addPause,
  addResume,
  addPurge,
  addBackup,
  addCopy,
  addDoctor,
]

function buildProgram(): Command {
  const program = new Command('onceish')
    .description(
      'Submits requests to third-party APIs exactly-once-ish: the intent is on disk before the call, and recovery reconciles instead of retrying blindly.',
    )
    .version(readVersion())
    .option('--config <file>', 'the config, instead of onceish.config.* in this folder', nonEmpty)
    .option('--store <path|url>', "the database, instead of the config's", nonEmpty)
    .option('--json', 'one JSON document on stdout (lists: one JSON object a line), and nothing else there')
    .addHelpText('after', example('onceish init', 'onceish enqueue --file requests.ndjson', 'onceish work --drain'))
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ outputError: () => {} }) // said once, by `fail`
    .exitOverride()
  for (const add of COMMANDS) add(program)
  return program
}

function fail(error: unknown): void {
  process.exitCode = exitCodeOf(error)
  if (isAnswered(error)) return
  try {
    printError(error)
  } catch {
    // stderr is gone: the exit code has to do
  }
}

/** Last resort: whatever nobody awaited or caught. */
function failNow(error: unknown): never {
  fail(error)
  process.exit(EXIT.failed)
}

process.on('uncaughtException', failNow)
process.on('unhandledRejection', failNow)
// A reader such as `head` that has seen enough is no failure of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => (error.code === 'EPIPE' ? process.exit() : failNow(error)))
process.stderr.on('error', () => {})

try {
  await buildProgram().parseAsync()
} catch (error) {
  fail(error)
}
// Everything is closed: what a broken API still holds open must not keep the process.
process.stdout.write('', () => process.exit())
