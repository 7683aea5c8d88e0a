// The record of calls beside the database: one short line in a file of its own. It is written in place and not synced: a power
// cut leaves an older line, which the database is ahead of. Only its first line is synced, since its absence means a copy.
import { closeSync, fsyncSync, openSync, readFileSync, statSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { OnceishError } from '../../core/errors.ts'
import type { CallRecord } from '../origin.ts'

export const RECORD_SUFFIX = '-calls'

export interface RecordFile {
  /** Null where there is none, or none that can be read. */
  read(): CallRecord | null
  write(line: Omit<CallRecord, 'place'>): void
  /** The first line, synced. */
  create(line: Omit<CallRecord, 'place'>): void
  place(): CallRecord['place']
}

/** @param realPath of the database: the record stands beside the file itself, wherever a link to it stands. */
export function recordBeside(realPath: string): RecordFile {
  const path = realPath + RECORD_SUFFIX
  const place = () => ({ path: realPath, inode: String(statSync(realPath, { bigint: true }).ino) })

  function save(line: Omit<CallRecord, 'place'>, isSynced: boolean): void {
    try {
      const file = openSync(path, isSynced ? 'w' : 'r+', 0o600)
      try {
        writeSync(file, toLine({ ...line, place: place() }), 0)
        if (isSynced) fsyncSync(file)
      } finally {
        closeSync(file)
      }
      if (isSynced) syncFolder(dirname(path))
    } catch (error) {
      const message = `cannot keep the record of calls ${path} (${(error as Error).message}): without it nothing is called`
      throw new OnceishError('STORE_UNWRITABLE', message, { cause: error })
    }
  }

  return {
    read: () => fromLine(textOf(path)),
    write: (line) => save(line, false),
    create: (line) => save(line, true),
    place,
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw new OnceishError('STORE_UNWRITABLE', `cannot read the record of calls ${path}: ${(error as Error).message}`)
  }
}

/** What is left of a longer line must not be read as part of this one. */
function toLine({ incarnation, highWaterAt, place }: CallRecord): string {
  return `${JSON.stringify([incarnation, highWaterAt, place.inode, place.path])}\n`
}

function fromLine(text: string): CallRecord | null {
  try {
    const [incarnation, highWaterAt, inode, path] = JSON.parse(text.slice(0, text.indexOf('\n'))) as unknown[]
    const isWhole = [incarnation, inode, path].every((part) => typeof part === 'string') && Number.isFinite(highWaterAt)
    if (!isWhole) return null
    return {
      incarnation: incarnation as string,
      highWaterAt: highWaterAt as number,
      place: { path: path as string, inode: inode as string },
    }
  } catch {
    return null // torn by a power cut, or nothing of ours
  }
}

function syncFolder(path: string): void {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
