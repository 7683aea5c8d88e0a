// Names the engines: the only place that knows more than the interface.
import type { InspectOptions, StoreInspection } from './inspection.ts'
import { inspectPostgres } from './postgres/inspect.ts'
import { openPostgresStore } from './postgres/postgres-store.ts'
import { inspectSqlite } from './sqlite/inspect.ts'
import { openSqliteStore } from './sqlite/sqlite-store.ts'
import type { Store, StoreProbe } from './store.ts'

const POSTGRES_URL = /^postgres(?:ql)?:\/\//

export interface OpenStoreOptions {
  /** False: a store that is not there is STORE_NOT_FOUND. */
  readonly create: boolean
  readonly now: number
  readonly probe?: StoreProbe | undefined
  /** The caller's time counts, as under a virtual clock, also where the engine has a clock of its own. */
  readonly isTimeGiven?: boolean | undefined
  /** Where workers on a server's store keep what it does not take; a file's store has its own folder. */
  readonly stateFolder?: string | undefined
}

/**
 * @param location path of a SQLite file, or a postgres:// URL.
 * @throws OnceishError STORE_* when it cannot be opened.
 */
export async function openStore(location: string, options: OpenStoreOptions): Promise<Store> {
  return POSTGRES_URL.test(location)
    ? openPostgresStore({ url: location, ...options })
    : openSqliteStore({ path: location, ...options })
}

/** Never throws for what is wrong with the store. */
export async function inspectStore(location: string, options: InspectOptions): Promise<StoreInspection> {
  return POSTGRES_URL.test(location) ? inspectPostgres(location, options) : inspectSqlite(location, options)
}
