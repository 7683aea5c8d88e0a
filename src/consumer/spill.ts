// Answers that the store cannot take (a full disk) are written to a synced file beside it, one checked line each, so that
// not even the death of this process forgets what an API said. Any worker takes them over as late answers.
import { createHash, randomUUID } from 'node:crypto'
import {
  appendFileSync,
  closeSync,
  type Dirent,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { OUTCOME_KINDS } from '../core/outcome.ts'
import type { AttemptResult } from '../core/settlement.ts'

export interface SpillPlace {
  /** Path of the store's file, or a name in the state folder; spill files stand beside it. */
  readonly storePath: string
  readonly incarnation: string
  /** Of this worker's life: names its own file. */
  readonly boot: string
}

/** @throws where the disk does not take it either: the answers stay in memory, and the file is as it was. */
export function writeSpill(place: SpillPlace, results: readonly AttemptResult[]): void {
  mkdirSync(dirname(place.storePath), { recursive: true, mode: 0o700 })
  const file = openSync(ownPath(place), 'a', 0o600)
  const { size } = fstatSync(file)
  try {
    appendFileSync(file, results.map((result) => `${toLine(result, place.incarnation)}\n`).join(''))
    fsyncSync(file)
  } catch (error) {
    if (size === 0) clearSpill(place)
    else ftruncateSync(file, size)
    throw error
  } finally {
    closeSync(file)
  }
}

/** After the commit that settled what was spilled. */
export function clearSpill(place: SpillPlace): void {
  rmSync(ownPath(place), { force: true })
}

export interface SpilledFile {
  readonly path: string
  readonly results: readonly AttemptResult[]
  /** Lines of another store's life, cut or changed: the file stays for a person. */
  readonly unreadable: number
}

/**
 * Takes over what other workers have spilled: each file is renamed before it is read, so that two readers do not share one
 * and its writer, if it lives, begins a new one.
 */
export function takeSpills(place: SpillPlace): SpilledFile[] {
  const folder = dirname(place.storePath)
  const prefix = `${basename(place.storePath)}.spill-`
  return entriesOf(folder)
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name)
    .filter((name) => name.startsWith(prefix) && name.endsWith('.ndjson') && !name.includes(place.boot))
    .flatMap((name) => takeSpill(join(folder, name), place))
}

/** A folder that nobody has needed yet is not there. */
function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

/** Call after the commit that settled the file's answers. */
export function removeSpill(file: SpilledFile): void {
  if (file.unreadable === 0) rmSync(file.path, { force: true })
}

function ownPath({ storePath, boot }: SpillPlace): string {
  return `${storePath}.spill-${boot}.ndjson`
}

function takeSpill(found: string, place: SpillPlace): SpilledFile[] {
  // A name of its own each time: one file must never be renamed onto another.
  const path = found.replace(/(\.taken-[\w-]+)?\.ndjson$/, `.taken-${place.boot}-${randomUUID()}.ndjson`)
  try {
    renameSync(found, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [] // another worker was first
    throw error
  }
  return [readSpill(path, place.incarnation)]
}

function readSpill(path: string, incarnation: string): SpilledFile {
  const lines = readFileSync(path, 'utf8').split('\n')
  const results = lines.filter((line) => line !== '').map((line) => fromLine(line, incarnation))
  const readable = results.filter((result) => result !== null)
  return { path, results: readable, unreadable: results.length - readable.length }
}

function toLine(result: AttemptResult, incarnation: string): string {
  const text = JSON.stringify(result)
  return JSON.stringify([incarnation, result.attempt, result.nonce, Buffer.byteLength(text), checksum(text), text])
}

function fromLine(line: string, incarnation: string): AttemptResult | null {
  try {
    const [store, attempt, nonce, bytes, sum, text] = JSON.parse(line) as [
      string,
      number,
      string,
      number,
      string,
      string,
    ]
    if (store !== incarnation || Buffer.byteLength(text) !== bytes || checksum(text) !== sum) return null
    const result = JSON.parse(text) as AttemptResult
    const isWhole = result.attempt === attempt && result.nonce === nonce && OUTCOME_KINDS.includes(result.outcome?.kind)
    return isWhole ? result : null
  } catch {
    return null // cut in the middle of a line by the same trouble that made it
  }
}

function checksum(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
