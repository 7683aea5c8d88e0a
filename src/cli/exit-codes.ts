// From how a command ended to its exit code and, for an error, to the one sentence on stderr.
import { CommanderError } from 'commander'
import { ERROR_CODES, isOnceishError } from '../core/errors.ts'

export const EXIT = { done: 0, failed: 1, usage: 2, needsPerson: 3, SIGINT: 130, SIGTERM: 143 } as const

export function exitCodeOf(error: unknown): number {
  if (isOnceishError(error)) return ERROR_CODES[error.code].exit
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage
  return EXIT.failed
}

/** Help and the version were asked for, or shown since no command was named: there is nothing to add. */
export function isAnswered(error: unknown): boolean {
  return error instanceof CommanderError && (error.exitCode === 0 || error.code === 'commander.help')
}

/** `error CODE: message`, and with DEBUG=1 where it was thrown. */
export function printError(error: unknown): void {
  const lines = [`error ${errorCode(error)}: ${errorMessage(error)}`]
  if (process.env['DEBUG'] === '1' && error instanceof Error) lines.push(stackOf(error))
  process.stderr.write(`${lines.join('\n')}\n`)
}

export function errorCode(error: unknown): string {
  if (isOnceishError(error)) return error.code
  return error instanceof CommanderError ? 'USAGE' : 'UNEXPECTED'
}

export function errorMessage(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  if (error instanceof CommanderError) return text.replace(/^error: /, '').replaceAll('\n', ' ')
  return isOnceishError(error) ? text : `${text} (DEBUG=1 shows where)`
}

function stackOf(error: Error): string {
  const own = error.stack ?? error.message
  return error.cause instanceof Error ? `${own}\ncaused by ${stackOf(error.cause)}` : own
}
