// Answers that the store cannot take (a full disk) are written to a synced file beside it, one checked line each, so that
// not even the death of this process forgets what an API said. Any worker takes them over as late answers, but for those of the store's
// life before it was put back from a copy: the request may have been called again since, so a person judges by them.
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
import type { SpillFacts } from './inspection.ts'

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
  /** Of another life of the store, before it was put back from a copy, or of another store. The file stays for a person. */
  readonly former: readonly AttemptResult[]
  /** Lines that are cut or changed: the file stays too. */
  readonly unreadable: number
}

export function formerRequests({ former }: SpilledFile): number[] {
  return [...new Set(former.map(({ requestId }) => requestId))]
}

/**
 * Takes over what other workers have spilled: each file is renamed before it is read, so that two readers do not share one
 * and its writer, if it lives, begins a new one. Those with answers of a former life alone keep their names, by which people are told of
 * them. @param known paths that were told of
 */
export function takeSpills(place: SpillPlace, known: ReadonlySet<string> = new Set()): SpilledFile[] {
  return spillsBeside(place.storePath)
    .filter((path) => !basename(path).includes(place.boot) && !known.has(path))
    .flatMap((path) => takeSpill(path, place))
}

/** For those who only look. */
export function readSpills({ storePath, incarnation }: Omit<SpillPlace, 'boot'>): SpilledFile[] {
  return spillsBeside(storePath).map((path) => readSpill(path, incarnation))
}

/** What an inspection says of what lies there. */
export function spillFacts(place: Omit<SpillPlace, 'boot'>): SpillFacts[] {
  return readSpills(place).map((file) => ({
    path: file.path,
    answers: file.results.length,
    formerRequests: formerRequests(file),
  }))
}

function spillsBeside(storePath: string): string[] {
  const folder = dirname(storePath)
  const prefix = `${basename(storePath)}.spill-`
  return entriesOf(folder)
    .filter((entry) => entry.isFile() && entry.name.startsWith(prefix) && entry.name.endsWith('.ndjson'))
    .map((entry) => join(folder, entry.name))
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
  if (file.unreadable + file.former.length === 0) rmSync(file.path, { force: true })
}

function ownPath({ storePath, boot }: SpillPlace): string {
  return `${storePath}.spill-${boot}.ndjson`
}

function takeSpill(found: string, place: SpillPlace): SpilledFile[] {
  const glance = readSpill(found, place.incarnation)
  if (glance.results.length === 0 && glance.former.length > 0) return [glance]
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
  const read = lines.filter((line) => line !== '').map(fromLine)
  const readable = read.filter((spilled) => spilled !== null)
  const [own, former] = [true, false].map((isOwn) =>
    readable.filter((spilled) => (spilled.incarnation === incarnation) === isOwn).map(({ result }) => result),
  )
  return { path, results: own ?? [], former: former ?? [], unreadable: read.length - readable.length }
}

function toLine(result: AttemptResult, incarnation: string): string {
  const text = JSON.stringify(result)
  return JSON.stringify([incarnation, result.attempt, result.nonce, Buffer.byteLength(text), checksum(text), text])
}

function fromLine(line: string): { readonly incarnation: string; readonly result: AttemptResult } | null {
  try {
    const [incarnation, attempt, nonce, bytes, sum, text] = JSON.parse(line) as [
      string,
      number,
      string,
      number,
      string,
      string,
    ]
    if (Buffer.byteLength(text) !== bytes || checksum(text) !== sum) return null
    const result = JSON.parse(text) as AttemptResult
    const isWhole = result.attempt === attempt && result.nonce === nonce && OUTCOME_KINDS.includes(result.outcome?.kind)
    return isWhole ? { incarnation, result } : null
  } catch {
    return null // cut in the middle of a line by the same trouble that made it
  }
}

function checksum(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
