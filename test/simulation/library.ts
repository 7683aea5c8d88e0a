// The product as it is built, or with one of its rules taken out: patched in a copy, never by a switch in the product.
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const DIST = join(ROOT, 'dist')

/** A text of the built product, and what stands in its place without the rule. */
export interface Patch {
  /** Below dist/. */
  readonly file: string
  readonly find: string
  readonly replace: string
}

export interface Library {
  readonly composeOnceish: typeof import('../../src/onceish.ts')['composeOnceish']
  readonly defineTarget: typeof import('../../src/index.ts')['defineTarget']
  readonly openStore: typeof import('../../src/store/open-store.ts')['openStore']
  readonly parseConfig: typeof import('../../src/config/options.ts')['parseConfig']
}

export function loadLibrary(): Promise<Library> {
  return load(DIST)
}

/** @param folder for the copy. @throws Error where a text to be taken out is not there exactly once: the rule has moved, and the patch must follow. */
export async function loadPatched(patches: readonly Patch[], folder: string): Promise<Library> {
  cpSync(DIST, join(folder, 'dist'), { recursive: true, filter: (path) => !path.includes('.d.ts') })
  cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'))
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  for (const patch of patches) apply(join(folder, 'dist', patch.file), patch)
  return load(join(folder, 'dist'))
}

function apply(path: string, { file, find, replace }: Patch): void {
  const text = readFileSync(path, 'utf8')
  const times = text.split(find).length - 1
  if (times !== 1) throw new Error(`${file} has ${times} times, not once: ${find}`)
  writeFileSync(
    path,
    text.replace(find, () => replace),
  )
}

async function load(folder: string): Promise<Library> {
  const module = (path: string) => import(pathToFileURL(join(folder, path)).href)
  const [{ composeOnceish }, { defineTarget }, { openStore }, { parseConfig }] = await Promise.all([
    module('onceish.js'),
    module('index.js'),
    module('store/open-store.js'),
    module('config/options.js'),
  ])
  return { composeOnceish, defineTarget, openStore, parseConfig }
}
