// Finds and reads the config file. YAML and JSON are data; TypeScript and JavaScript are the user's own code. What reads the one
// is loaded only where it is one: half of a short command's time is loading.
import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, extname, resolve } from 'node:path'
import { OnceishError } from '../core/errors.ts'
import { checkedOptions, type Fields, TEXT } from '../core/given.ts'
import type { Config } from './config.ts'
import { parseConfig, storeOf } from './options.ts'

export { parseConfig } from './options.ts'

const EXTENSIONS = ['yaml', 'yml', 'json', 'ts', 'js', 'mjs']
const NAMES = EXTENSIONS.map((extension) => `onceish.config.${extension}`)

/** Where the config is looked for. */
export interface LoadOptions {
  /** Relative to `cwd`; absent: the one `onceish.config.*` there. */
  readonly file?: string | undefined
  /** Overrides the config's store; relative to `cwd`. */
  readonly store?: string | undefined
  /** Default the process's. */
  readonly cwd?: string | undefined
}

const FIELDS: Fields<LoadOptions> = { file: TEXT, store: TEXT, cwd: TEXT }

/**
 * Reads and checks `onceish.config.{yaml,yml,json,ts,js,mjs}`; a module is run, and exports its config as default or `config`.
 * @returns the parsed config; no secret is in it, only the names of the environment's variables.
 * @throws OnceishError USAGE, CONFIG_NOT_FOUND, CONFIG_UNREADABLE, or CONFIG_INVALID, which lists all faults at once.
 */
export async function loadConfig(options: LoadOptions = {}): Promise<Config> {
  const { file, store, cwd = process.cwd() } = checkedOptions('options of loadConfig', options, FIELDS)
  const path = file === undefined ? findConfig(cwd) : resolve(cwd, file)
  const config = parseConfig(await readConfig(path), { path, baseDir: dirname(path) })
  return store === undefined ? config : Object.freeze({ ...config, store: storeOf(store, cwd) })
}

function findConfig(cwd: string): string {
  const found = namesIn(cwd).filter((name) => NAMES.includes(name))
  const [name, ...others] = found
  if (name === undefined) {
    throw new OnceishError(
      'CONFIG_NOT_FOUND',
      `no onceish.config.{${EXTENSIONS.join(',')}} in ${cwd}: run \`onceish init\` to write one, or name it with --config`,
    )
  }
  if (others.length > 0) {
    throw new OnceishError('CONFIG_INVALID', `${cwd} has several configs: ${found.join(', ')}; name one with --config`)
  }
  return resolve(cwd, name)
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory).sort()
  } catch (error) {
    throw unreadable(directory, error)
  }
}

async function readConfig(path: string): Promise<unknown> {
  const extension = extname(path).slice(1)
  if (!EXTENSIONS.includes(extension)) {
    throw new OnceishError('CONFIG_INVALID', `${path} is no config: its name must end in .${EXTENSIONS.join(', .')}`)
  }
  const text = await textOf(path)
  return extension === 'ts' || extension === 'js' || extension === 'mjs' ? runModule(path) : readData(path, text)
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      throw new OnceishError('CONFIG_NOT_FOUND', `there is no config ${path}: run \`onceish init\` to write one`)
    }
    throw unreadable(path, error)
  }
}

/** JSON is read as YAML, which it is, for the sake of lines and columns in messages. */
async function readData(path: string, text: string): Promise<unknown> {
  const { parseDocument } = await import('yaml')
  const document = parseDocument(text, { prettyErrors: true })
  if (document.errors.length > 0) {
    const lines = document.errors.map(({ linePos, message }) => {
      const { line = 1, col = 1 } = linePos?.[0] ?? {}
      return `${path}:${line}:${col}: ${message.split(/ at line \d+/)[0]}`
    })
    throw new OnceishError('CONFIG_INVALID', lines.join('\n'))
  }
  try {
    return document.toJS()
  } catch (error) {
    throw new OnceishError('CONFIG_INVALID', `${path}: ${(error as Error).message}`, { cause: error })
  }
}

async function runModule(path: string): Promise<unknown> {
  let loaded: { readonly default?: unknown; readonly config?: unknown }
  try {
    const { createJiti } = await import('jiti')
    loaded = await createJiti(import.meta.url, { fsCache: false, moduleCache: false }).import(path)
  } catch (error) {
    throw new OnceishError('CONFIG_UNREADABLE', `${path} fails: ${(error as Error).message}`, { cause: error })
  }
  const config = loaded.config ?? loaded.default
  if (config !== undefined) return config
  throw new OnceishError('CONFIG_INVALID', `${path} exports no config: export it as default, or as \`config\``)
}

function unreadable(path: string, error: unknown): OnceishError {
  const { message } = error as Error
  return new OnceishError('CONFIG_UNREADABLE', `cannot read ${path}: ${message}`, { cause: error })
}
