/** Structured log lines; the CLI's is pino, a library user may pass any logger of this shape. */
export interface Log {
  /** Each step. */
  debug(fields: object, message: string): void
  /** What became of requests, where that is not the plain success. */
  info(fields: object, message: string): void
  /** Something needs a person (held, dead, paused), or nobody calls a target for a while: breakers and told waits, and their ends. */
  warn(fields: object, message: string): void
  /** The store or the process is in trouble. */
  error(fields: object, message: string): void
}

export const SILENT: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
