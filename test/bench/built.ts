// The product as users run it: what a test's loader makes of its sources is slower.
import { fileURLToPath, pathToFileURL } from 'node:url'

const DIST = fileURLToPath(new URL('../../dist/', import.meta.url))

export function loadBuilt(): Promise<typeof import('../../src/index.ts')> {
  return loadModule('index.js')
}

/** @param path below dist/. */
export function loadModule<Module>(path: string): Promise<Module> {
  return import(pathToFileURL(DIST + path).href)
}
