// Names the engines: the only place that knows more than the interface.
import { OnceishError } from '../core/errors.ts'
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
  if (/^postgres(ql)?:\/\//.test(location)) {
    throw new OnceishError(
      'STORE_UNSUPPORTED',
      'this version keeps its store in SQLite only: set "store" to a file path',
    )
  }
  return openSqliteStore({ path: location, ...options })
}
