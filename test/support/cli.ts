// The command line as users start it: the built file in a process of its own.
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import type { RawConfig } from './api.ts'
import { tempDir } from './temp-dir.ts'

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunningCli {
  readonly pid: number
  readonly child: ChildProcessByStdio<null, Readable, Readable>
  readonly ended: Promise<Ended>
  kill(signal: NodeJS.Signals): void
}

export interface Shop {
  readonly folder: string
  readonly storePath: string
  start(...args: string[]): RunningCli
  run(...args: string[]): Promise<Ended>
  json<T>(...args: string[]): Promise<T>
  lines<T>(...args: string[]): Promise<T[]>
}

/** A folder with a config, where commands are run. */
export function openShop(config: RawConfig): Shop {
  const folder = tempDir()
  writeFileSync(join(folder, 'onceish.config.json'), JSON.stringify(config))
  const start = (...args: string[]) => startCli(folder, args)
  const run = (...args: string[]) => start(...args).ended
  return {
    folder,
    storePath: join(folder, 'onceish.db'),
    start,
    run,
    json: async (...args) => JSON.parse((await run(...args, '--json')).stdout),
    lines: async (...args) =>
      (await run(...args, '--json')).stdout
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line)),
  }
}

function startCli(folder: string, args: readonly string[]): RunningCli {
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, LOG_LEVEL: 'warn' },
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, stdout, stderr }))
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    await ended
  })
  return { pid: child.pid ?? 0, child, ended, kill: (signal) => void child.kill(signal) }
}
