// Answers that the store cannot take (a full disk) are written to a synced file beside it, one checked line each, so that
// not even the death of this process forgets what an API said. Any worker reads them back as late answers.
import { createHash } from 'node:crypto'
import { closeSync, existsSync, fsyncSync, openSync, readdirSync, readFileSync, unlinkSync, writeSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { AttemptResult } from '../core/settlement.ts'

export interface Spill {
  /** @throws where the disk does not take it either: the answers stay in memory. */
  write(results: readonly AttemptResult[]): void
  /** After the commit that settled what was spilled. */
  clear(): void
}

export interface SpillOptions {
  /** Path of the store's file; spill files stand beside it. */
  readonly storePath: string
  readonly incarnation: string
  readonly boot: string
}

export function createSpill(options: SpillOptions): Spill {
  const path = `${options.storePath}.spill-${options.boot}.ndjson`
  return {
    write: (results) => {
      const file = openSync(path, 'a', 0o600)
      try {
        for (const result of results) writeSync(file, `${toLine(result, options.incarnation)}\n`)
        fsyncSync(file)
      } finally {
        closeSync(file)
      }
    },
    clear: () => {
      if (existsSync(path)) unlinkSync(path)
    },
  }
}

export interface SpilledFile {
  readonly path: string
  readonly results: readonly AttemptResult[]
  /** Lines of another store's life, cut or changed: they are left where they are. */
  readonly unreadable: number
}

/** What workers of this store have spilled and nobody has settled yet; the own file is left out. */
export function readSpills(options: SpillOptions): SpilledFile[] {
  const folder = dirname(options.storePath)
  const prefix = `${basename(options.storePath)}.spill-`
  return readdirSync(folder)
    .filter((name) => name.startsWith(prefix) && name.endsWith('.ndjson') && !name.includes(options.boot))
    .map((name) => readSpill(join(folder, name), options.incarnation))
}

/** Call after the commit that settled the file's answers. A file with unreadable lines stays for a person. */
export function removeSpill(file: SpilledFile): void {
  if (file.unreadable === 0 && existsSync(file.path)) unlinkSync(file.path)
}

function toLine(result: AttemptResult, incarnation: string): string {
  const text = JSON.stringify(result)
  return JSON.stringify([incarnation, result.attempt, result.nonce, Buffer.byteLength(text), checksum(text), text])
}

function readSpill(path: string, incarnation: string): SpilledFile {
  const results: AttemptResult[] = []
  let unreadable = 0
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    if (line === '') continue
    const result = fromLine(line, incarnation)
    if (result === null) unreadable++
    else results.push(result)
  }
  return { path, results, unreadable }
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
    return result.attempt === attempt && result.nonce === nonce ? result : null
  } catch {
    return null // cut in the middle of a line by the same trouble that made it
  }
}

function checksum(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
