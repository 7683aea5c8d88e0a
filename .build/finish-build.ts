// The second half of `npm run build`, after tsc. What has no source any more leaves dist/; declarations say `.js` where tsc
// leaves `.ts` in them; and those that no entry of package.json reaches are taken out, so that what is published needs
// nobody else's types.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const SRC = join(ROOT, 'src')
const DIST = join(ROOT, 'dist')
const DECLARATION = '.d.ts'
const OUTPUT = /\.(?:d\.ts|js|js\.map)$/
const RELATIVE_TS = /(from |import\()(['"])(\.[^'"]+)\.ts\2/g

interface Manifest {
  readonly exports: Readonly<Record<string, { readonly types: string }>>
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => OUTPUT.test(path))
}

function hasSource(path: string): boolean {
  return existsSync(join(SRC, path.replace(OUTPUT, '.ts')))
}

function entries(): string[] {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest
  return Object.values(exports).map((entry) => resolve(ROOT, entry.types))
}

/** Rewrites it and everything that it leads to; `done` holds absolute paths. */
function rewrite(path: string, done: Set<string>): void {
  if (done.has(path)) return
  done.add(path)
  const text = readFileSync(path, 'utf8')
  const next = [...text.matchAll(RELATIVE_TS)].map((match) => resolve(dirname(path), `${match[3]}${DECLARATION}`))
  writeFileSync(path, text.replaceAll(RELATIVE_TS, '$1$2$3.js$2'))
  for (const found of next) rewrite(found, done)
}

for (const path of filesIn(DIST)) if (!hasSource(path)) rmSync(join(DIST, path))
const published = new Set<string>()
for (const entry of entries()) rewrite(entry, published)
for (const path of filesIn(DIST)) {
  if (path.endsWith(DECLARATION) && !published.has(join(DIST, path))) rmSync(join(DIST, path))
}
