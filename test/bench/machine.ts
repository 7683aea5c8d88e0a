// What the figures were measured on.
import { closeSync, fdatasyncSync, openSync, readFileSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { arch, availableParallelism, cpus, platform, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { median } from './rounds.ts'

export interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly memoryGiB: number
  readonly os: string
  readonly node: string
  readonly packages: Readonly<Record<string, string>>
  /** Median of 200 appends of 4 KiB, each synced, on the disk that is measured on. */
  readonly fdatasyncMs: number
  /** As the operating system numbers it. */
  readonly fileSystemType: string
}

const PACKAGES = ['better-sqlite3', 'undici']
const SYNCS = 200

export function describeMachine(folder: string): Machine {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    os: `${platform()} ${release()} ${arch()}`,
    node: process.version,
    packages: Object.fromEntries(PACKAGES.map((name) => [name, versionOf(name)])),
    fdatasyncMs: measureSync(join(folder, 'sync')),
    fileSystemType: `0x${statfsSync(folder).type.toString(16)}`,
  }
}

function versionOf(name: string): string {
  const file = new URL(`../../node_modules/${name}/package.json`, import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}

function measureSync(path: string): number {
  const file = openSync(path, 'w')
  const page = Buffer.alloc(4096, 1)
  try {
    const times = Array.from({ length: SYNCS }, () => {
      const startedAt = performance.now()
      writeSync(file, page)
      fdatasyncSync(file)
      return performance.now() - startedAt
    })
    return Math.round(median(times) * 1000) / 1000
  } finally {
    closeSync(file)
    rmSync(path)
  }
}
