// The real command line in a process of its own, in a folder of the test's own.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { configFor, type RawConfig } from './api.ts'
import { tempDir } from './temp-dir.ts'

export const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
if (!existsSync(MAIN)) throw new Error(`${MAIN} is not there: run "npm run build" first`)

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly env?: Record<string, string>
  readonly stdin?: string
}

export interface Workspace {
  readonly folder: string
  readonly database: string
  cli(args: readonly string[], options?: RunOptions): Promise<Ended>
  /** Runs it, wants exit code 0, and gives its stdout as JSON. */
  json<T = Record<string, unknown>>(args: readonly string[]): Promise<T>
  write(name: string, content: string): string
}

/** No API answers there. */
export const NOWHERE = 'http://127.0.0.1:9'

/** @param config null: no config is written. */
export function workspace(config: RawConfig | null = configFor(NOWHERE)): Workspace {
  const folder = tempDir()
  const write = (name: string, content: string) => {
    writeFileSync(join(folder, name), content)
    return join(folder, name)
  }
  if (config !== null) write('onceish.config.json', JSON.stringify(config))
  const cli = (args: readonly string[], options: RunOptions = {}) => ended(startCli(folder, args, options))
  return {
    folder,
    database: join(folder, 'onceish.db'),
    cli,
    json: async <T>(args: readonly string[]) => {
      const { code, stdout, stderr } = await cli([...args, '--json'])
      if (code !== 0) throw new Error(`onceish ${args.join(' ')} ended with ${code}: ${stderr}`)
      return JSON.parse(stdout) as T
    },
    write,
  }
}

export function startCli(folder: string, args: readonly string[], { env = {}, stdin = '' }: RunOptions = {}) {
  const { LOG_LEVEL: _level, DEBUG: _debug, ...inherited } = process.env
  const child = spawn(process.execPath, [MAIN, ...args], { cwd: folder, env: { ...inherited, ...env }, stdio: 'pipe' })
  onTestFinished(() => void child.kill('SIGKILL'))
  child.stdin.on('error', () => {}) // it may end without having read
  child.stdin.end(stdin)
  return child
}

export async function ended(child: ReturnType<typeof startCli>): Promise<Ended> {
  const [stdout, stderr, [code, signal]] = await Promise.all([
    textOf(child.stdout),
    textOf(child.stderr),
    once(child, 'close'),
  ])
  return { code: code as number | null, signal: signal as NodeJS.Signals | null, stdout, stderr }
}

async function textOf(stream: Readable): Promise<string> {
  let text = ''
  for await (const chunk of stream.setEncoding('utf8')) text += chunk
  return text
}

export function linesOf(text: string): unknown[] {
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as unknown]))
}
