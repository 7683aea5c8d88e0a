// What `npm pack` publishes, file by file.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { install } from '../support/installed.ts'

interface Manifest {
  readonly bin: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, { readonly types: string; readonly default: string }>>
  readonly dependencies: Readonly<Record<string, string>>
}

let folder: string
let manifest: Manifest
let files: readonly string[]

beforeEach(() => {
  folder = install().unpacked
  manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
  files = readdirSync(join(folder, 'dist'), { recursive: true, encoding: 'utf8' }).map((path) => join('dist', path))
})

const read = (path: string) => readFileSync(join(folder, path), 'utf8')
const specifiersOf = (text: string) =>
  [...text.matchAll(/(?:\bfrom |\bimport\()(['"])([^'"]+)\1/g)].map((m) => m[2] ?? '')

test('it holds the build, the presets, what npm always adds, and the changelog', () => {
  const top = ['CHANGELOG.md', 'LICENSE', 'README.md', 'dist', 'fixtures', 'package.json']
  expect(readdirSync(folder).sort()).toEqual(top)
  expect(readdirSync(join(folder, 'fixtures'))).toEqual(['targets'])
})

test('the build holds modules, their maps and declarations, each with its source in this checkout', () => {
  const strays = files.filter((path) => {
    const source = path.replace(/\.(?:d\.ts|js\.map|js)$/, '.ts').replace(/^dist/, 'src')
    return /\.\w+$/.test(path) && !existsSync(source)
  })
  expect(strays).toEqual([])
})

test('every entry and command that the manifest names is there', () => {
  const named = [
    ...Object.values(manifest.exports).flatMap((entry) => [entry.types, entry.default]),
    ...Object.values(manifest.bin),
  ]
  expect(named.filter((path) => !existsSync(join(folder, path)))).toEqual([])
})

test('every declaration is reached from an entry, by specifiers that end in .js, and needs no other package', () => {
  const reached = new Set<string>()
  const foreign: string[] = []
  const visit = (path: string): void => {
    if (reached.has(path)) return
    reached.add(path)
    for (const name of specifiersOf(read(path))) {
      if (/^\..*\.js$/.test(name)) visit(join(dirname(path), name.replace(/\.js$/, '.d.ts')))
      else if (!Object.hasOwn(manifest.dependencies, name)) foreign.push(`${path}: ${name}`)
    }
  }
  for (const { types } of Object.values(manifest.exports)) visit(join(types))
  expect(foreign).toEqual([])
  expect([...reached].sort()).toEqual(files.filter((path) => path.endsWith('.d.ts')).sort())
})

test('every source map carries its source: the tarball has no other', () => {
  const maps = files.filter((path) => path.endsWith('.map'))
  expect(maps.length).toBeGreaterThan(0)
  const bare = maps.filter((path) => {
    const { sourcesContent } = JSON.parse(read(path)) as { sourcesContent?: readonly (string | null)[] }
    return typeof sourcesContent?.[0] !== 'string'
  })
  expect(bare).toEqual([])
})
