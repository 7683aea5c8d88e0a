// A bar on stderr for long work: on a terminal only, and never with --json.
import { createRequire } from 'node:module'

export interface Progress {
  update(done: number, total: number, note: string): void
  /** Takes the bar away. */
  stop(): void
}

const NONE: Progress = { update: () => {}, stop: () => {} }

export function startProgress(options: { isJson: boolean; format: string; total: number }): Progress {
  if (options.isJson || !process.stderr.isTTY) return NONE
  const { SingleBar } = createRequire(import.meta.url)('cli-progress') as typeof import('cli-progress')
  const bar = new SingleBar({
    format: options.format,
    stream: process.stderr,
    barsize: 30,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    clearOnComplete: true,
    // A signal that ends the process must find the cursor where it was.
    hideCursor: null,
    gracefulExit: false,
    fps: 8,
  })
  bar.start(options.total, 0, { note: '' })
  return {
    update: (done, total, note) => {
      bar.setTotal(total)
      bar.update(Math.min(done, total), { note })
    },
    stop: () => bar.stop(),
  }
}
