// A log that is kept, so that its lines can be counted.
import type { Log } from '../../src/core/log.ts'

export interface Listening {
  readonly log: Log
  /** Lines of this level. */
  of(level: keyof Log): string[]
}

export function listen(): Listening {
  const lines: { level: keyof Log; text: string }[] = []
  const keep = (level: keyof Log) => (fields: object, message: string) => {
    const { err } = fields as { err?: Error }
    lines.push({ level, text: err === undefined ? message : `${message}: ${err.message}` })
  }
  return {
    log: { debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') },
    of: (level) => lines.filter((line) => line.level === level).map(({ text }) => text),
  }
}
