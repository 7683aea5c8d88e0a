// Logs go to stderr: JSON lines for machines, one readable line each on a terminal.
import { createRequire } from 'node:module'
import { OnceishError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { didYouMean } from '../core/suggest.ts'
import { escapeControls } from './print.ts'

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']
const DEFAULT_LEVEL = 'warn'

/** Most commands have nothing to log, and need not load what writes it. */
const loadPino = () => createRequire(import.meta.url)('pino') as typeof import('pino')

/** @throws OnceishError USAGE when LOG_LEVEL names no level. */
export function createLog(): Log {
  const level = process.env['LOG_LEVEL'] || DEFAULT_LEVEL
  if (!LEVELS.includes(level)) {
    throw new OnceishError(
      'USAGE',
      `LOG_LEVEL is one of ${LEVELS.join(', ')}, not "${level}"${didYouMean(level, LEVELS)}`,
    )
  }
  const options = {
    level,
    base: { pid: process.pid },
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: serializeError },
  }
  const sink = process.stderr.isTTY ? { write: writeReadably } : { write: (line: string) => process.stderr.write(line) }
  let made: Log | null = null
  const log = () => {
    made ??= loadPino().pino(options, sink)
    return made
  }
  return {
    debug: (fields, message) => log().debug(fields, message),
    info: (fields, message) => log().info(fields, message),
    warn: (fields, message) => log().warn(fields, message),
    error: (fields, message) => log().error(fields, message),
  }
}

function serializeError(error: Error): object {
  const { stack, ...rest } = loadPino().stdSerializers.err(error)
  return process.env['DEBUG'] === '1'
    ? { ...rest, stack }
    : { type: rest.type, message: rest.message, code: rest['code'] }
}

function writeReadably(line: string): void {
  const {
    level,
    time,
    pid: _,
    msg,
    err,
    ...fields
  } = JSON.parse(line) as Record<string, unknown> & { err?: { message: string } }
  const at = new Date(time as number).toISOString().slice(11, 19)
  const facts = Object.entries({ ...fields, ...(err === undefined ? {} : { err: err.message }) })
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ')
  // The line may stand where a progress bar is: that is wiped, and drawn again below.
  process.stderr.write(`\r\x1b[K${at} ${String(level).padEnd(5)} ${escapeControls(`${String(msg)}  ${facts}`)}\n`)
}
