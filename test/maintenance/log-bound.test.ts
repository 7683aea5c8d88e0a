import { statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createLogBound } from '../../src/consumer/bound-log.ts'
import { systemClock } from '../../src/core/clock.ts'
import { SILENT } from '../../src/core/log.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { LogSize } from '../../src/store/upkeep.ts'
import { configFor } from '../support/api.ts'
import { startScript } from '../support/children.ts'
import { NOWHERE } from '../support/run-cli.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'
import { workOver } from '../support/worker.ts'
import { requestsFrom } from './requests.ts'

const BOUND = 262_144

async function openBounded(): Promise<{
  store: Store
  path: string
  walBytes: () => number
  write: () => Promise<void>
}> {
  const path = join(tempDir(), 'jobs.db')
  const store = await openSqliteStore({ path, create: true, now: 1, logBoundBytes: BOUND })
  onTestFinished(() => store.close())
  let written = 0
  return {
    store,
    path,
    walBytes: () => statSync(`${path}-wal`).size,
    write: async () => {
      await store.enqueue(requestsFrom(written, 500), 1)
      written += 500
    },
  }
}

function listen() {
  const lines: string[] = []
  const keep = (level: string) => (_: object, message: string) => void lines.push(`${level}: ${message}`)
  return { lines, log: { ...SILENT, warn: keep('warn'), info: keep('info') } }
}

function steppingClock() {
  let now = 0
  return {
    clock: { ...systemClock, wallNow: () => now, monotonicNow: () => now },
    later: () => {
      now += 10_000
    },
  }
}

test('a log that a reader of another process holds back is told once and shrinks when the reader is gone', async () => {
  const { store, path, walBytes, write } = await openBounded()
  const { lines, log } = listen()
  const { clock, later } = steppingClock()
  const bound = createLogBound(store, clock, log)
  const reader = await startScript(new URL('./reader.ts', import.meta.url), path)
  await write()
  await write()
  expect(walBytes()).toBeGreaterThan(BOUND)
  for (let looks = 0; looks < 4; looks++) {
    await bound()
    later()
  }
  expect(walBytes()).toBeGreaterThan(BOUND)
  expect(lines).toEqual([expect.stringMatching(/^warn: .*holds back.*grown to \d+ MiB/)])
  await write()
  expect(await store.list({ limit: 2 })).toHaveLength(2)
  await reader.kill()
  await bound()
  expect(walBytes()).toBeLessThanOrEqual(BOUND)
  expect(lines).toEqual([expect.stringMatching(/^warn/), expect.stringMatching(/^info: .*within bounds again/)])
})

test('without a reader it stays within the bound by itself and nothing is said', async () => {
  const { store, walBytes, write } = await openBounded()
  const { lines, log } = listen()
  const { clock, later } = steppingClock()
  const bound = createLogBound(store, clock, log)
  for (let looks = 0; looks < 3; looks++) {
    await write()
    await bound()
    expect(walBytes()).toBeLessThanOrEqual(BOUND)
    later()
  }
  expect(lines).toEqual([])
})

test('whoever reads only in passing is no news', async () => {
  const sizes: LogSize[] = [
    { bytes: 9, isHeld: true },
    { bytes: 0, isHeld: false },
    { bytes: 9, isHeld: true },
    { bytes: 0, isHeld: false },
  ]
  const store = { boundLog: async () => sizes.shift() ?? { bytes: 0, isHeld: false } } as Partial<Store> as Store
  const { lines, log } = listen()
  const { clock, later } = steppingClock()
  const bound = createLogBound(store, clock, log)
  while (sizes.length > 0) {
    await bound()
    later()
  }
  expect(lines).toEqual([])
})

test('the store is asked every few seconds, however often the loop goes round', async () => {
  let asked = 0
  const ask = async () => {
    asked++
    return { bytes: 0, isHeld: false }
  }
  const { clock, later } = steppingClock()
  const bound = createLogBound({ boundLog: ask } as Partial<Store> as Store, clock, SILENT)
  for (let rounds = 0; rounds < 100; rounds++) await bound()
  expect(asked).toBe(1)
  later()
  await bound()
  expect(asked).toBe(2)
})

test('reads of ours hold nothing back: after each of them the log can be shrunk', async () => {
  const { store, walBytes, write } = await openBounded()
  const reads = [
    () => store.list({ limit: 10 }),
    () => store.status(),
    () => store.get(1),
    () => store.inDoubt(0, 10),
    () => store.drainStatus(['keyed'], 5, 5),
    () => store.watchChanges(['keyed'])(5),
  ]
  for (const read of reads) {
    await write()
    await read()
    expect(await store.boundLog()).toMatchObject({ isHeld: false })
    expect(walBytes()).toBeLessThanOrEqual(BOUND)
  }
})

test('a worker asks for it, and goes on where it is told that somebody holds the log back', async () => {
  const { store } = await openBounded()
  let asked = 0
  const boundLog = async () => {
    asked++
    return { bytes: 2 * BOUND, isHeld: true }
  }
  const worker = await workOver({ ...store, boundLog }, configFor(NOWHERE))
  await waitFor(() => asked > 0, { what: 'the worker to ask' })
  await worker.stop()
  await worker.close()
})

test('also where the store is opened by a link', async () => {
  const { store, path, write } = await openBounded()
  const link = join(tempDir(), 'link.db')
  symlinkSync(path, link)
  const linked = await openSqliteStore({ path: link, create: false, now: 1, logBoundBytes: BOUND })
  await write()
  await write()
  expect(statSync(`${path}-wal`).size).toBeGreaterThan(BOUND)
  await linked.boundLog()
  expect(statSync(`${path}-wal`).size).toBeLessThanOrEqual(BOUND)
  await linked.close()
  expect(await store.list({ limit: 1 })).toHaveLength(1)
})
