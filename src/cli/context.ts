// What every command starts with: the global options, the whole config, and the store behind it, closed at the end.
import { userInfo } from 'node:os'
import type { Command } from 'commander'
import type { Onceish } from '../api.ts'
import { type Config, targetNames } from '../config/config.ts'
import { assertEnvSet, readEnvironment } from '../config/environment.ts'
import { loadConfig } from '../config/load-config.ts'
import { OnceishError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { isShared } from '../core/store-address.ts'
import { didYouMean } from '../core/suggest.ts'
import { openOnceish } from '../onceish.ts'
import { createLog } from './log.ts'

export interface GlobalOptions {
  readonly config?: string
  readonly store?: string
  readonly json?: boolean
}

export interface Settings {
  readonly config: Config
  readonly isJson: boolean
  readonly log: Log
  readonly actor: string
  /** A command to run next, with the same config and store as this one. */
  readonly next: (words: string) => string
}

export interface Context extends Settings {
  readonly once: Onceish
}

/** Before anything is opened or made. @throws OnceishError CONFIG_*, USAGE */
export async function readSettings(command: Command): Promise<Settings> {
  const options = command.optsWithGlobals<GlobalOptions>()
  const log = createLog()
  return {
    config: await loadConfig({ file: options.config, store: options.store }),
    isJson: options.json ?? false,
    log,
    actor: actorName(),
    next: (words) => nextCommand(words, options),
  }
}

/** @param options.create makes a missing database. */
export async function withStore(
  settings: Settings,
  options: { create: boolean },
  run: (context: Context) => Promise<void>,
): Promise<void> {
  const { config, log, actor } = settings
  const once = await openOnceish({ config, log, actor, ...options })
  try {
    await run({ ...settings, once })
  } finally {
    await once.close()
  }
}

/** For commands that need nothing between the config and an existing store. */
export async function withExistingStore(command: Command, run: (context: Context) => Promise<void>): Promise<void> {
  await withStore(await readSettings(command), { create: false }, run)
}

/** @throws OnceishError TARGET_UNKNOWN */
export function requireTarget(config: Config, name: string): void {
  const known = targetNames(config)
  if (known.includes(name)) return
  const hint = didYouMean(name, known) || ` (known: ${known.join(', ') || 'none'})`
  throw new OnceishError('TARGET_UNKNOWN', `the config names no target "${name}"${hint}`)
}

/** A target that the config has dropped may still have rows; one that nobody ever named is a slip of the pen. */
export async function requireSeen({ once, config }: Context, target: string): Promise<void> {
  const rows = await once.list({ target, limit: 1 })
  if (rows.length === 0) requireTarget(config, target)
}

/** The targets that a worker serves, checked before a database is made. @throws OnceishError TARGET_UNKNOWN, ENV_MISSING */
export function requireServed(config: Config, names: readonly string[] | undefined): readonly string[] {
  for (const name of names ?? []) requireTarget(config, name)
  const served = names ?? targetNames(config)
  assertEnvSet(config, readEnvironment(), served)
  return served
}

/** Who speaks, in events. */
export function actorName(): string {
  return `cli:${userName()}`
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    return 'unknown' // a user id without an entry, as in some containers
  }
}

function nextCommand(words: string, { config, store }: GlobalOptions): string {
  const options = Object.entries({ config, store: store && withoutPassword(store) }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name} ${quoted(value)}`],
  )
  return ['onceish', words, ...options].join(' ')
}

/** What is printed to be pasted is kept in many places. */
function withoutPassword(store: string): string {
  if (!isShared(store) || !URL.canParse(store)) return store
  const url = new URL(store)
  url.password = ''
  url.searchParams.delete('password')
  return url.toString()
}

/** As a shell takes it for one word. */
export function quoted(text: string): string {
  return /^[\w./:@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
