// A backup is a file of its own that is there whole and verified, or not at all: it is written under another name beside its
// place, and takes its name only when everything of it is on disk. Nothing is ever overwritten.
import { randomBytes } from 'node:crypto'
import { link, lstat, open, realpath, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { OnceishError } from '../core/errors.ts'
import { checkedOptions, type Fields, FUNCTION, SIGNAL } from '../core/given.ts'
import type { Store, StoreProbe } from '../store/store.ts'
import type { BackupCopy, BackupOptions } from '../store/upkeep.ts'

export type { BackupOptions } from '../store/upkeep.ts'

/** What a verified copy holds, and where it is. */
export interface BackupReport {
  readonly path: string
  readonly bytes: number
  readonly pages: number
  readonly schemaVersion: number
  /** The store's high-water time as the copy has it: calls claimed later are not in it. */
  readonly highWaterAt: number
  readonly ms: number
}

const FIELDS: Fields<BackupOptions> = { signal: SIGNAL, onProgress: FUNCTION }

/** @throws OnceishError USAGE, FILE_EXISTS, FILE_UNWRITABLE, BACKUP_UNVERIFIED, STORE_UNSUPPORTED on PostgreSQL, STORE_* */
export async function backup(
  store: Store,
  to: string,
  options: BackupOptions = {},
  probe?: StoreProbe,
): Promise<BackupReport> {
  checkedOptions('options of backup', options, FIELDS)
  const startedAt = performance.now()
  if (store.backup === null) throw await madeByServer(store)
  const path = await placeOf(to)
  await refuseTaken(store, path)
  const partial = `${path}.partial-${randomBytes(6).toString('hex')}`
  await createPrivately(partial)
  try {
    const copy = await store.backup(partial, options)
    await sync(partial)
    await refuseTaken(store, path)
    probe?.('before-commit', 'backup')
    await giveName(partial, path)
    await sync(dirname(path))
    probe?.('after-commit', 'backup')
    return await report(path, copy, startedAt)
  } finally {
    for (const file of store.filesOf(partial)) await rm(file, { force: true })
  }
}

async function madeByServer(store: Store): Promise<OnceishError> {
  const { location } = await store.facts()
  return new OnceishError(
    'STORE_UNSUPPORTED',
    `backup copies a SQLite file, and ${location} is on PostgreSQL, whose backups the server makes: pg_basebackup with archived WAL; what is put back from one says so, and wants "onceish recover --restored"`,
  )
}

/** The folder's real path, so that no link hides which file is meant. */
async function placeOf(to: string): Promise<string> {
  const path = resolve(to)
  try {
    return join(await realpath(dirname(path)), basename(path))
  } catch (error) {
    throw unwritable(path, error)
  }
}

async function refuseTaken(store: Store, path: string): Promise<void> {
  const { location } = await store.facts()
  const own = store.filesOf(await realpath(location))
  if (own.includes(path)) {
    throw new OnceishError('FILE_EXISTS', `${path} is the store itself, or a name of its own: name another file`)
  }
  for (const file of store.filesOf(path)) {
    // A log that another database left beside it would be taken for its own, and change it.
    if ((await lstat(file).catch(() => null)) !== null) throw taken(file)
  }
}

function taken(path: string): OnceishError {
  return new OnceishError('FILE_EXISTS', `${path} is there already and was left as it is: name another file`)
}

function unwritable(path: string, error: unknown): OnceishError {
  return new OnceishError('FILE_UNWRITABLE', `cannot write ${path}: ${(error as Error).message}`, { cause: error })
}

/** Payloads are nobody else's to read. */
async function createPrivately(path: string): Promise<void> {
  try {
    await (await open(path, 'wx', 0o600)).close()
  } catch (error) {
    throw unwritable(path, error)
  }
}

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/** A link, unlike a rename, refuses a name that somebody else has taken meanwhile. */
async function giveName(partial: string, path: string): Promise<void> {
  try {
    await link(partial, path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') throw taken(path)
    // Some file systems know no links.
    if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'ENOSYS') throw unwritable(path, error)
    if ((await lstat(path).catch(() => null)) !== null) throw taken(path)
    await rename(partial, path)
  }
}

async function report(path: string, copy: BackupCopy, startedAt: number): Promise<BackupReport> {
  const { pages, schemaVersion, highWaterAt } = copy
  const { size } = await stat(path)
  return { path, bytes: size, pages, schemaVersion, highWaterAt, ms: Math.round(performance.now() - startedAt) }
}
