// Keeps the rooms clean: layers import only downwards, no cycles, and each outside thing has its one door.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const SRC = resolve(dirname(fileURLToPath(import.meta.url)), '../src')

/** From the bottom up; rooms of one row do not know each other. */
const LAYERS = [
  ['core'],
  ['config'],
  ['store', 'target'],
  ['producer', 'consumer', 'recovery', 'watch', 'maintenance'],
  ['api.ts'],
  ['given.ts'],
  ['onceish.ts'],
  ['testing'],
  ['index.ts', 'testing.ts'],
  ['cli'],
]

/** Package or global -> the only files or folders that may use it. */
const DOORS: Record<string, readonly string[]> = {
  'better-sqlite3': ['store/sqlite', 'store/postgres/slice.ts'],
  pg: ['store/postgres'],
  undici: ['target/http'],
  pino: ['cli/log.ts'],
  zod: ['config'],
  jsonata: ['config'],
  yaml: ['config'],
  jiti: ['config'],
  commander: ['cli'],
  'cli-table3': ['cli'],
  'cli-progress': ['cli'],
  'lossless-json': ['target/http', 'producer'],
}

interface Source {
  readonly path: string
  readonly text: string
  readonly imports: readonly string[]
}

function sources(folder: string): Source[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    if (statSync(path).isDirectory()) return sources(path)
    return name.endsWith('.ts') ? [read(path)] : []
  })
}

function read(path: string): Source {
  const text = readFileSync(path, 'utf8')
  const imports = [...text.matchAll(/(?:^|\n)\s*(?:import|export)\b[^'"`;]*?from\s+'([^']+)'|import\('([^']+)'\)/g)]
  return { path: relative(SRC, path), text, imports: imports.map((match) => match[1] ?? match[2] ?? '') }
}

const files = sources(SRC)

function layerOf(path: string): number {
  const room = path.split('/')[0] ?? ''
  return LAYERS.findIndex((rooms) => rooms.includes(room))
}

function local(from: Source): string[] {
  return from.imports
    .filter((name) => name.startsWith('.'))
    .map((name) => relative(SRC, resolve(SRC, dirname(from.path), name)))
}

test('every file belongs to a layer', () => {
  expect(files.map((file) => file.path).filter((path) => layerOf(path) === -1)).toEqual([])
})

test('imports go only downwards, and rooms of one row do not know each other', () => {
  const upward = files.flatMap((file) =>
    local(file)
      .filter((path) => {
        const sameRoom = path.split('/')[0] === file.path.split('/')[0]
        return !sameRoom && layerOf(path) >= layerOf(file.path)
      })
      .map((path) => `${file.path} -> ${path}`),
  )
  expect(upward).toEqual([])
})

test('there are no import cycles, types aside', () => {
  const graph = new Map(files.map((file) => [file.path, valueImports(file)]))
  const cycles: string[] = []
  const done = new Set<string>()
  const visit = (path: string, trail: readonly string[]): void => {
    if (trail.includes(path)) cycles.push([...trail.slice(trail.indexOf(path)), path].join(' -> '))
    if (done.has(path) || trail.includes(path)) return
    for (const next of graph.get(path) ?? []) visit(next, [...trail, path])
    done.add(path)
  }
  for (const path of graph.keys()) visit(path, [])
  expect(cycles).toEqual([])
})

function valueImports(file: Source): string[] {
  const withoutTypes = file.text.replaceAll(/(?:^|\n)\s*(?:import|export) type\b[^'"`;]*?from\s+'[^']+'/g, '')
  const found = [...withoutTypes.matchAll(/(?:^|\n)\s*(?:import|export)\b[^'"`;]*?from\s+'(\.[^']+)'/g)]
  return found.map((match) => relative(SRC, resolve(SRC, dirname(file.path), match[1] ?? '')))
}

test('each outside package has its door', () => {
  const strays = files.flatMap((file) =>
    file.imports
      .filter((name) => DOORS[name] !== undefined && !DOORS[name].some((door) => file.path.startsWith(door)))
      .map((name) => `${file.path} uses ${name}`),
  )
  expect(strays).toEqual([])
})

test('the environment, the clock and the process are asked at their doors only', () => {
  const doors: readonly [RegExp, readonly string[]][] = [
    [/\bprocess\.env\b/, ['config/environment.ts', 'cli']],
    [/\bDate\.now\(/, ['core/clock.ts', 'cli']],
    [/\bprocess\.(?:exit|on|stdout|stderr|argv)\b/, ['cli']],
    [/\bconsole\./, ['cli']],
  ]
  const strays = files.flatMap((file) =>
    doors
      .filter(([pattern, rooms]) => pattern.test(file.text) && !rooms.some((room) => file.path.startsWith(room)))
      .map(([pattern]) => `${file.path}: ${pattern}`),
  )
  expect(strays).toEqual([])
})
