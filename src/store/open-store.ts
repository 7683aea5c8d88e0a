// Names the engines: the only place that knows more than the interface. Whoever works on a file loads nothing of the other.
import { OnceishError } from '../core/errors.ts'
import { isShared } from '../core/store-address.ts'
import type { CopyDestination, CopySource } from './copying.ts'
import type { InspectOptions, StoreInspection } from './inspection.ts'
import { openCopySource } from './sqlite/copy-source.ts'
import { inspectSqlite } from './sqlite/inspect.ts'
import { openSqliteStore } from './sqlite/sqlite-store.ts'
import type { Store, StoreProbe } from './store.ts'

export interface OpenStoreOptions {
  /** False: a store that is not there is STORE_NOT_FOUND. */
  readonly create: boolean
  readonly now: number
  readonly probe?: StoreProbe | undefined
  /** The caller's time counts, as under a virtual clock, also where the engine has a clock of its own. */
  readonly isTimeGiven?: boolean | undefined
  /** Where workers on a server's store keep what it does not take; a file's store has its own folder. */
  readonly stateFolder?: string | undefined
  /** Whose sessions a server shows. */
  readonly name?: string | undefined
}

/**
 * @param location path of a SQLite file, or a postgres:// URL.
 * @throws OnceishError STORE_* when it cannot be opened.
 */
export async function openStore(location: string, options: OpenStoreOptions): Promise<Store> {
  if (!isShared(location)) return openSqliteStore({ path: location, ...options })
  const { openPostgresStore } = await import('./postgres/postgres-store.ts')
  return openPostgresStore({ url: location, ...options })
}

/** @throws OnceishError COPY_REFUSED where the one is no SQLite file or the other no postgres:// URL; STORE_* */
export async function openCopy(
  from: string,
  to: string,
): Promise<{ readonly source: CopySource; readonly destination: (create: boolean) => Promise<CopyDestination> }> {
  if (isShared(from) || !isShared(to)) {
    throw new OnceishError(
      'COPY_REFUSED',
      'a store is copied from a SQLite file to a postgres:// URL, and no other way: nothing tells that no worker of a fleet is left which has PostgreSQL as its store',
    )
  }
  const { openCopyDestination } = await import('./postgres/copy-destination.ts')
  return { source: await openCopySource(from), destination: (create) => openCopyDestination(to, create) }
}

/** Never throws for what is wrong with the store. */
export async function inspectStore(location: string, options: InspectOptions): Promise<StoreInspection> {
  if (!isShared(location)) return inspectSqlite(location, options)
  const { inspectPostgres } = await import('./postgres/inspect.ts')
  return inspectPostgres(location, options)
}
