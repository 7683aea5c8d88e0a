// What one check says: what was found, and what to do about it.
import type { Config } from '../../config/config.ts'
import type { Environment } from '../../config/environment.ts'
import type { DatabaseFacts, StoreInspection, WorkFacts } from '../../store/inspection.ts'

/** One finding. */
export interface Check {
  readonly name: string
  /** `warn`: a person should look. `fail`: it cannot work like this. */
  readonly ok: 'ok' | 'warn' | 'fail'
  readonly found: string
  /** What to do, as a command where there is one; null where nothing is to be done. */
  readonly advice: string | null
}

/** Everything that checks judge. They ask nothing themselves. */
export interface DoctorFacts {
  readonly config: Config
  readonly env: Environment
  /** UTC epoch ms. */
  readonly now: number
  readonly versions: { readonly onceish: string; readonly node: string }
  readonly inspection: StoreInspection
  /** A command of ours, with the options that lead to the same store. */
  readonly next: (words: string) => string
}

export interface DatabaseView extends DoctorFacts {
  readonly database: DatabaseFacts
}

export interface WorkView extends DatabaseView {
  readonly work: WorkFacts
}

export function ok(name: string, found: string): Check {
  return { name, ok: 'ok', found, advice: null }
}

export function warn(name: string, found: string, advice: string): Check {
  return { name, ok: 'warn', found, advice }
}

export function fail(name: string, found: string, advice: string): Check {
  return { name, ok: 'fail', found, advice }
}

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']

/** `512 bytes`, `1.5 GiB`. */
export function formatBytes(bytes: number): string {
  const power = bytes < 1024 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10))
  return `${Math.round((bytes / 1024 ** power) * 10) / 10} ${UNITS[power]}`
}

/** `1 row`, `2 rows`. */
export function counted(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? '' : 's'}`
}
