// The packed tarball, installed in a folder of the test's own. It is unpacked, and the packages that it names as
// `dependencies`, and no others, are linked to this checkout's. So what the tarball holds, its bin, its exports and that it
// needs nothing undeclared are tested; npm's own resolving and the compiling of better-sqlite3 are not: `.ci/run` does
// a real `npm install` of the tarball.
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, onTestFinished } from 'vitest'
import { type Ended, ended } from './run-cli.ts'
import { tempDir } from './temp-dir.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const MAIN = 'node_modules/onceish/dist/cli/main.js'
const BIN = 'node_modules/.bin'
const CONSUMER = { private: true, type: 'module' }
// No `dom` in `lib`: a server has none.
const TSCONFIG = {
  compilerOptions: {
    target: 'es2023',
    lib: ['es2023'],
    module: 'nodenext',
    strict: true,
    skipLibCheck: false,
    types: ['node'],
  },
}

export interface Running {
  readonly ended: Promise<Ended>
  /** To it and to all that it started. */
  kill(signal: NodeJS.Signals): void
}

export interface Installed {
  readonly folder: string
  /** Where the package's own files are. */
  readonly unpacked: string
  write(name: string, content: string): void
  /** @throws Error where the file has no `from`: what a test edits must be there. */
  edit(name: string, from: string, to: string): void
  /** `onceish` is the installed one, `npx` works too and takes a second longer. */
  start(command: string, ...args: readonly string[]): Running
  /** Wants exit code 0, and gives its stdout. */
  run(command: string, ...args: readonly string[]): Promise<string>
  /** Compiles this folder's TypeScript as a strict consumer would, declarations of libraries included. */
  compile(): Promise<Ended>
}

const tarballs = mkdtempSync(join(tmpdir(), 'onceish-tarball-'))
let tarball: string | undefined
afterAll(() => rmSync(tarballs, { recursive: true, force: true }))

/** `dist` is packed as it is: building it again would pull it away from under the tests that run beside this one. */
function pack(): string {
  const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', tarballs]
  const [made] = JSON.parse(execFileSync('npm', args, { cwd: ROOT, encoding: 'utf8' })) as [{ filename: string }]
  return join(tarballs, made.filename)
}

/** @param also what the consumer has installed besides. To be called in a test. */
export function install(also: readonly string[] = []): Installed {
  const folder = tempDir()
  const unpacked = join(folder, 'node_modules/onceish')
  mkdirSync(unpacked, { recursive: true })
  tarball ??= pack()
  execFileSync('tar', ['-xzf', tarball, '-C', unpacked, '--strip-components=1'])
  // README asks users of TypeScript for @types/node.
  for (const name of [...dependenciesOf(unpacked), '@types/node', ...also]) link(folder, name)
  linkBin(folder)
  const write = (name: string, content: string) => writeFileSync(join(folder, name), content)
  write('package.json', JSON.stringify(CONSUMER))
  write('tsconfig.json', JSON.stringify(TSCONFIG))
  const start = (command: string, ...args: readonly string[]) => startIn(folder, command, args)
  return {
    folder,
    unpacked,
    write,
    edit: (name, from, to) => {
      const text = readFileSync(join(folder, name), 'utf8')
      if (!text.includes(from)) throw new Error(`${name} has no ${JSON.stringify(from)} to edit`)
      write(name, text.replaceAll(from, to))
    },
    start,
    run: async (command, ...args) => {
      const { code, signal, stdout, stderr } = await start(command, ...args).ended
      if (code === 0) return stdout
      throw new Error(`${command} ${args.join(' ')} ended with ${code ?? signal}: ${stderr}${stdout}`)
    },
    compile: () => start(process.execPath, join(ROOT, 'node_modules/typescript/bin/tsc')).ended,
  }
}

function dependenciesOf(folder: string): string[] {
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { dependencies: object }
  return Object.keys(dependencies)
}

function link(folder: string, name: string): void {
  const path = join(folder, 'node_modules', name)
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules', name), path)
}

/** As npm does it. */
function linkBin(folder: string): void {
  mkdirSync(join(folder, BIN))
  chmodSync(join(folder, MAIN), 0o755)
  symlinkSync(join(folder, MAIN), join(folder, BIN, 'onceish'))
}

function startIn(folder: string, command: string, args: readonly string[]): Running {
  const { LOG_LEVEL: _level, DEBUG: _debug, ...inherited } = process.env
  // The bin's first line asks for `node` by name: it is to be the one that runs the tests.
  const PATH = [join(folder, BIN), dirname(process.execPath), inherited['PATH']].join(delimiter)
  const env = { ...inherited, PATH }
  const child = spawn(command, args, { cwd: folder, env, stdio: 'pipe', detached: true })
  const kill = (signal: NodeJS.Signals) => {
    try {
      process.kill(-(child.pid ?? 0), signal)
    } catch {
      // the whole group has ended
    }
  }
  onTestFinished(() => kill('SIGKILL'))
  child.stdin.end()
  return { ended: ended(child), kill }
}
