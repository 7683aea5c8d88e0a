// Names the engines: the only place that knows more than the interface.
import { OnceishError } from '../core/errors.ts'
import type { InspectOptions, StoreInspection } from './inspection.ts'
import { inspectSqlite } from './sqlite/inspect.ts'
import { openSqliteStore } from './sqlite/sqlite-store.ts'
import type { Store, StoreProbe } from './store.ts'

/**
 * @param location path of a SQLite file.
 * @throws OnceishError STORE_UNSUPPORTED for a postgres:// URL, STORE_* when the file cannot be opened.
 */
export async function openStore(
  location: string,
  options: { create: boolean; now: number; probe?: StoreProbe | undefined },
): Promise<Store> {
  refusePostgres(location)
  return openSqliteStore({ path: location, ...options })
}

/** Never throws for what is wrong with the store. @throws OnceishError STORE_UNSUPPORTED for a postgres:// URL. */
export async function inspectStore(location: string, options: InspectOptions): Promise<StoreInspection> {
  refusePostgres(location)
  return inspectSqlite(location, options)
}

function refusePostgres(location: string): void {
  if (!/^postgres(ql)?:\/\//.test(location)) return
  throw new OnceishError('STORE_UNSUPPORTED', 'this version keeps its store in SQLite only: set "store" to a file path')
}
