// The record of calls beside the database: one short line in a file of its own. It is written in place and not synced: a power
// cut leaves an older line, which the database is ahead of. Only its first line is synced, since its absence means a copy.
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, statSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { OnceishError } from '../../core/errors.ts'
import type { CallRecord } from '../origin.ts'

export const RECORD_SUFFIX = '-calls'

type Line = Omit<CallRecord, 'place'>

export interface RecordFile {
  /** Null where there is none, or none that can be read. */
  read(): CallRecord | null
  /** For the next `write`: what cannot be opened must be known before the commit that it tells of. */
  open(): void
  write(line: Line): void
  /** The first line of a new record, synced. */
  create(line: Line): void
  place(): CallRecord['place']
  close(): void
}

/**
 * Each throws OnceishError STORE_UNWRITABLE.
 * @param realPath of the database: the record stands beside the file itself, wherever a link to it stands.
 */
export function recordBeside(realPath: string): RecordFile {
  const path = realPath + RECORD_SUFFIX
  let opened: number | null = null

  function place(): CallRecord['place'] {
    try {
      return { path: realPath, inode: String(statSync(realPath, { bigint: true }).ino) }
    } catch (error) {
      const message = `${realPath} is not there any more (${(error as Error).message}): start again where it is`
      throw new OnceishError('STORE_UNWRITABLE', message, { cause: error })
    }
  }

  function close(): void {
    if (opened !== null) closeSync(opened)
    opened = null
  }

  function create(line: Line): void {
    const fresh = `${path}.new`
    const file = openSync(fresh, 'w', 0o600)
    try {
      writeSync(file, toLine({ ...line, place: place() }), 0)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    renameSync(fresh, path)
    syncFolder(dirname(path))
  }

  function keep<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      const message = `cannot keep the record of calls ${path} (${(error as Error).message}): without it nothing is called`
      throw new OnceishError('STORE_UNWRITABLE', message, { cause: error })
    }
  }

  return {
    read: () => fromLine(textOf(path)),
    open: () =>
      keep(() => {
        close()
        opened = openSync(path, 'r+')
      }),
    write: (line) =>
      keep(() => {
        writeSync(opened as number, toLine({ ...line, place: place() }), 0)
      }),
    create: (line) => keep(() => create(line)),
    place,
    close,
  }
}

export function hasRecord(realPath: string): boolean {
  return statSync(realPath + RECORD_SUFFIX, { throwIfNoEntry: false }) !== undefined
}

function textOf(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) return ''
  try {
    // Reading from a pipe would wait for ever.
    if (!found.isFile()) throw new Error('it is no file')
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new OnceishError(
      'STORE_UNWRITABLE',
      `cannot read the record of calls ${path} (${(error as Error).message}): put the file back, or remove what is in its place`,
    )
  }
}

/** What is left of a longer line must not be read as part of this one. */
function toLine({ incarnation, highWaterAt, place }: CallRecord): string {
  return `${JSON.stringify([incarnation, highWaterAt, place.inode, place.path])}\n`
}

function fromLine(text: string): CallRecord | null {
  try {
    const [incarnation, highWaterAt, inode, path] = JSON.parse(text.slice(0, text.indexOf('\n'))) as unknown[]
    const isWhole =
      [incarnation, inode, path].every((part) => typeof part === 'string') && Number.isSafeInteger(highWaterAt)
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
