// Ready descriptions of real APIs, one file each in fixtures/targets, which the package carries beside its code.
import { readdirSync, readFileSync } from 'node:fs'
import { didYouMean } from '../core/suggest.ts'
import { usage } from './arguments.ts'

/** From src/cli and from dist/cli alike. */
const FOLDER = new URL('../../fixtures/targets/', import.meta.url)
const EXTENSION = '.yaml'

export interface Preset {
  readonly name: string
  /** The first line of its file, which is a comment. */
  readonly summary: string
}

/** By name. */
export function listPresets(): Preset[] {
  return presetNames().map((name) => {
    const [first = ''] = textOf(name).split('\n', 1)
    return { name, summary: first.replace(/^#\s*/, '') }
  })
}

/** The text of the file. @throws OnceishError USAGE for an unknown name, with the nearest one and the list. */
export function readPreset(name: string): string {
  const names = presetNames()
  if (names.includes(name)) return textOf(name)
  throw usage(`there is no preset "${name}"${didYouMean(name, names)} (known: ${names.join(', ')})`)
}

function presetNames(): string[] {
  const files = readdirSync(FOLDER).filter((file) => file.endsWith(EXTENSION))
  return files.map((file) => file.slice(0, -EXTENSION.length)).sort()
}

function textOf(name: string): string {
  return readFileSync(new URL(name + EXTENSION, FOLDER), 'utf8')
}
