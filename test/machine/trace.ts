// A process under strace, and its system calls in the order in which they began and ended.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { tempDir } from '../support/temp-dir.ts'

export interface Syscall {
  readonly name: string
  /** What its descriptor is: a path, `TCP:[...]`, `pipe:[...]`. */
  readonly file: string
  readonly fd: number
  /** What was written. */
  readonly data: Buffer
  readonly result: number
  /** Places in the trace, comparable with each other. */
  readonly beganAt: number
  readonly endedAt: number
}

const CALLS = 'write,writev,pwrite64,pwritev,pwritev2,sendto,sendmsg,sendmmsg,fsync,fdatasync,sync_file_range'
/** Longer than any page or request here: a cut string could hide what is looked for. */
const STRING_BYTES = 1_048_576

interface Running {
  readonly cwd: string
  readonly env?: Record<string, string>
}

/** Runs it to its end, which must be a good one. */
export async function traceNode(args: readonly string[], running: Running): Promise<readonly Syscall[]> {
  const file = join(tempDir(), 'trace')
  const strace = ['--seccomp-bpf', '-yy', '-s', String(STRING_BYTES), '-e', `trace=${CALLS}`, '-o', file]
  const { code, stderr } = await runUnder(strace, args, running)
  if (code !== 0) throw new Error(`node ${args.join(' ')} ended with ${code}: ${stderr}`)
  return parseTrace(readFileSync(file, 'latin1'))
}

/** @param fault as strace's `inject` has it: system calls that fail, and which error, from which on. */
export function runWithFault(
  fault: string,
  args: readonly string[],
  running: Running,
): Promise<{ code: number | null; stderr: string }> {
  return runUnder(['-e', `inject=${fault}`, '-o', '/dev/null'], args, running)
}

async function runUnder(strace: readonly string[], args: readonly string[], { cwd, env }: Running) {
  const command = ['-f', '-qq', '-e', 'signal=none', ...strace, '--', process.execPath, ...args]
  const child = spawn('strace', command, {
    cwd,
    env: { ...process.env, LOG_LEVEL: 'error', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  child.stdout.resume()
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stderr }
}

/** strace cuts a call in two where another thread's stands between its beginning and its end. */
function parseTrace(text: string): Syscall[] {
  const begun = new Map<string, { head: string; at: number }>()
  const calls: Syscall[] = []
  for (const [at, line] of text.split('\n').entries()) {
    const [, thread = '', rest = ''] = /^(\d+) +(.*)$/s.exec(line) ?? []
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/s.exec(rest)
    const unfinished = /^(.*?) ?<unfinished \.\.\.>$/s.exec(rest)
    if (unfinished !== null) begun.set(thread, { head: unfinished[1] ?? '', at })
    else if (resumed === null) keep(parseCall(rest, at, at))
    else {
      const start = begun.get(thread)
      begun.delete(thread)
      if (start !== undefined) keep(parseCall(start.head + resumed[1], start.at, at))
    }
  }
  function keep(call: Syscall | null): void {
    if (call !== null) calls.push(call)
  }
  return calls.toSorted((a, b) => a.beganAt - b.beganAt)
}

function parseCall(text: string, beganAt: number, endedAt: number): Syscall | null {
  const match = /^(\w+)\((\d+)(?:<((?:[^<>]|->)*)>)?(.*)\) += (-?\d+)/s.exec(text)
  if (match === null) return null
  const [, name = '', fd, file = '', args = '', result] = match
  return { name, fd: Number(fd), file, data: dataOf(args), result: Number(result), beganAt, endedAt }
}

function dataOf(args: string): Buffer {
  const strings = [...args.matchAll(/"((?:[^"\\]|\\.)*)"/gs)].map(([, inner = '']) => decodeEscapes(inner))
  return Buffer.from(strings.join(''), 'latin1')
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', v: '\v', f: '\f' }

function decodeEscapes(text: string): string {
  return text.replace(/\\([0-7]{1,3}|.)/gs, (_, code: string) =>
    /^[0-7]/.test(code) ? String.fromCharCode(Number.parseInt(code, 8)) : (ESCAPES[code] ?? code),
  )
}
