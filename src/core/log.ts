/** Structured log lines; the CLI's is pino, a library user may pass any logger of this shape. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export const SILENT: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
