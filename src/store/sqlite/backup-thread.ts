// Runs in a thread of its own: copies one snapshot of a database into an empty file, and opens the copy to verify it. One
// read transaction spans the copy, or every commit of another process would start it over; the log grows meanwhile.
import { parentPort, workerData } from 'node:worker_threads'
import Database from 'better-sqlite3'
import { type CopyFacts, factsOf, faultOf } from './copy-facts.ts'

export interface BackupOrder {
  readonly from: string
  /** An empty file. */
  readonly to: string
}

export type BackupNews =
  | { readonly kind: 'progress'; readonly copiedPages: number; readonly pages: number }
  | { readonly kind: 'copied'; readonly pages: number; readonly facts: CopyFacts }
  /** The copy opens and is not what it was made from. */
  | { readonly kind: 'unverified'; readonly why: string }
  | { readonly kind: 'failed'; readonly at: 'from' | 'to'; readonly sqlite: string | null; readonly message: string }

/** 1 MiB of the usual 4 KiB pages. */
const PAGES_A_STEP = 256
const BUSY_TIMEOUT_MS = 10_000

const order = workerData as BackupOrder
let at: 'from' | 'to' = 'from'

try {
  await backUp()
} catch (error) {
  const sqlite = error instanceof Database.SqliteError ? error.code : null
  tell({ kind: 'failed', at, sqlite, message: (error as Error).message })
}

async function backUp(): Promise<void> {
  const source = new Database(order.from, { fileMustExist: true, timeout: BUSY_TIMEOUT_MS })
  try {
    source.exec('BEGIN')
    const facts = factsOf(source)
    at = 'to'
    const { totalPages } = await source.backup(order.to, { progress: tellProgress })
    source.exec('COMMIT')
    markCopied(order.to)
    const why = faultOf(order.to, facts)
    tell(why === null ? { kind: 'copied', pages: totalPages, facts } : { kind: 'unverified', why })
  } finally {
    source.close()
  }
}

/** Also of a store that has not called yet: it may, before the copy is put back. */
function markCopied(path: string): void {
  const copy = new Database(path, { fileMustExist: true })
  try {
    copy.exec('UPDATE store SET has_called = 1')
  } finally {
    copy.close()
  }
}

function tellProgress({ totalPages, remainingPages }: Database.BackupMetadata): number {
  tell({ kind: 'progress', copiedPages: totalPages - remainingPages, pages: totalPages })
  return PAGES_A_STEP
}

function tell(news: BackupNews): void {
  parentPort?.postMessage(news)
}
