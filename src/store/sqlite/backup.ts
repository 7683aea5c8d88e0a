// A copy of the store while it is in use. The work is a thread's, so that neither copying nor verifying holds the event loop.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import Database from 'better-sqlite3'
import { OnceishError } from '../../core/errors.ts'
import type { BackupCopy, BackupOptions } from '../upkeep.ts'
import type { BackupNews, BackupOrder } from './backup-thread.ts'
import { RECORD_SUFFIX } from './call-record.ts'
import { toStoreError } from './connection.ts'

/** Also where this runs from its sources the thread is the built one: not every Node takes a loader and native code into a thread. */
const BUILT = import.meta.url.endsWith('.ts') ? '../../../dist/store/sqlite/' : './'
const THREAD = new URL(`${BUILT}backup-thread.js`, import.meta.url)

/** Names beside a database that SQLite, or the record of calls, has for its own. */
const SIDE_FILES = ['-wal', '-shm', '-journal', RECORD_SUFFIX] as const

export function ownFiles(path: string): readonly string[] {
  return [path, ...SIDE_FILES.map((suffix) => path + suffix)]
}

/** @param to an empty file; what is in it after an error is nothing of worth. @throws OnceishError STORE_*, BACKUP_UNVERIFIED */
export async function copyStore(from: string, to: string, options: BackupOptions): Promise<BackupCopy> {
  const order: BackupOrder = { from, to }
  const thread = new Worker(THREAD, { workerData: order, execArgv: [] })
  const exit = once(thread, 'exit')
  try {
    return await outcomeOf(thread, order, options)
  } finally {
    await thread.terminate()
    await exit
  }
}

function outcomeOf(thread: Worker, order: BackupOrder, { signal, onProgress }: BackupOptions): Promise<BackupCopy> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal?.reason)
    if (signal?.aborted) abort()
    signal?.addEventListener('abort', abort, { once: true })
    thread.on('error', reject)
    thread.on('exit', () => reject(new OnceishError('BACKUP_UNVERIFIED', `the backup of ${order.from} broke off`)))
    thread.on('message', (news: BackupNews) => {
      if (news.kind === 'progress') onProgress?.(news)
      else if (news.kind === 'copied') resolve({ pages: news.pages, ...news.facts })
      else reject(errorOf(news, order))
    })
  })
}

function errorOf(news: BackupNews & { kind: 'unverified' | 'failed' }, { from, to }: BackupOrder): unknown {
  if (news.kind === 'unverified') {
    const message = `the copy of ${from} is not whole (${news.why}); it was removed: "onceish doctor --full" looks at the store itself`
    return new OnceishError('BACKUP_UNVERIFIED', message)
  }
  const path = news.at === 'from' ? from : to
  return news.sqlite === null
    ? new OnceishError('STORE_IO_FAILED', `copying ${from} failed: ${news.message}`)
    : toStoreError(new Database.SqliteError(news.message, news.sqlite), path)
}
