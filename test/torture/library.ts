// The product as it is built, for processes that start often.
import { fileURLToPath, pathToFileURL } from 'node:url'

const BUILT = fileURLToPath(new URL('../../dist/index.js', import.meta.url))

export function loadBuilt(): Promise<typeof import('../../src/index.ts')> {
  return import(pathToFileURL(BUILT).href)
}
