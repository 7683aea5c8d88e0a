import { closeSync, openSync, readdirSync, statSync, symlinkSync, writeFileSync, writeSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { backup } from '../../src/maintenance/backup.ts'
import { factsOf, faultOf } from '../../src/store/sqlite/copy-facts.ts'
import { startScript } from '../support/children.ts'
import { openWorld, type World } from '../support/store.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'
import { REQUESTS_A_COMMIT, requestsFrom } from './requests.ts'

async function filledWorld(requests = 50): Promise<World> {
  const world = await openWorld()
  for (let n = 0; n < requests; n++) await world.enqueue({ n })
  return world
}

function rowsIn(path: string): Record<string, number> {
  const db = new Database(path, { readonly: true, fileMustExist: true })
  const count = (table: string) => db.prepare(`SELECT COUNT(*) FROM ${table}`).pluck().get() as number
  const rows = { requests: count('requests'), ready: count('ready'), hashes: count('logical_hashes') }
  db.close()
  return rows
}

test('a copy opens as a store of the same life, and goes on from there once a person has said so', async () => {
  const world = await filledWorld()
  const [call] = (await world.turn({ slots: 1 })).calls
  const path = join(tempDir(), 'copy.db')
  const report = await backup(world.store, path)
  const facts = await world.store.facts()
  expect(report).toEqual({
    path,
    bytes: statSync(path).size,
    pages: statSync(path).size / 4096,
    schemaVersion: facts.schemaVersion,
    highWaterAt: facts.highWaterAt,
    ms: expect.any(Number),
  })
  await world.store.close()
  const copy = await openWorld({ path })
  expect(await copy.store.facts()).toMatchObject({ incarnation: facts.incarnation, namespace: facts.namespace })
  expect(await copy.store.get(call?.requestId ?? 0)).toMatchObject({ state: 'invoking', payload: { n: 0 } })
  await expect(copy.turn({ slots: 100 })).rejects.toMatchObject({ code: 'STORE_RESTORED' })
  await copy.store.declareOwn('store_restored', { now: copy.clock.now, actor: 'test' }, {})
  expect((await copy.turn({ slots: 100 })).calls).toHaveLength(49)
  await copy.store.close()
})

test('it is readable by its owner only, and nothing else is left beside it', async () => {
  const world = await filledWorld()
  const path = join(tempDir(), 'copy.db')
  await backup(world.store, path)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(readdirSync(dirname(path))).toEqual(['copy.db'])
  await world.store.close()
})

test('while another process writes without a pause it ends, holds one commit, and the process goes on', async () => {
  const world = await openWorld()
  // Many steps' worth of pages: each commit between two steps would start the copy over.
  for (let n = 0; n < 5; n++) await world.store.enqueue(requestsFrom(n * 1000, 1000), world.clock.now)
  await startScript(new URL('./writer.ts', import.meta.url), world.path)
  const path = join(tempDir(), 'copy.db')
  await backup(world.store, path)
  const { requests = 0, ready, hashes } = rowsIn(path)
  expect({ ready, hashes }).toEqual({ ready: requests, hashes: requests })
  expect(requests % REQUESTS_A_COMMIT).toBe(0)
  expect(requests).toBeGreaterThan(5000)
  await waitFor(() => (rowsIn(world.path)['requests'] ?? 0) > requests, { what: 'the writer to go on' })
  await world.store.close()
})

test('the event loop goes on while it copies and verifies', async () => {
  const world = await filledWorld()
  const copying = backup(world.store, join(tempDir(), 'copy.db'))
  let turns = 0
  let isDone = false
  const ended = copying.finally(() => {
    isDone = true
  })
  while (!isDone) {
    turns++
    await new Promise((resolve) => setImmediate(resolve))
  }
  await ended
  expect(turns).toBeGreaterThan(10)
  await world.store.close()
})

test('how far it is, is told up to the last page', async () => {
  const world = await filledWorld()
  const told: { copiedPages: number; pages: number }[] = []
  const { pages } = await backup(world.store, join(tempDir(), 'copy.db'), { onProgress: (news) => told.push(news) })
  expect(told[0]).toEqual({ kind: 'progress', copiedPages: 0, pages })
  await world.store.close()
})

test.each(['', '-wal', '-shm', '-journal'])(
  'the store is never its own destination: its name with "%s"',
  async (suffix) => {
    const world = await filledWorld()
    const folder = join(tempDir(), 'link')
    symlinkSync(dirname(world.path), folder)
    const path = join(folder, basename(world.path) + suffix)
    const before = readdirSync(dirname(world.path)).sort()
    await expect(backup(world.store, path)).rejects.toMatchObject({
      code: 'FILE_EXISTS',
      message: expect.stringContaining('the store itself'),
    })
    expect(readdirSync(dirname(world.path)).sort()).toEqual(before)
    await world.store.close()
  },
)

test('what is there is never overwritten, also where it appears while the copy is made', async () => {
  const world = await filledWorld()
  const path = join(tempDir(), 'copy.db')
  const late = backup(world.store, path, { onProgress: () => writeFileSync(path, 'mine') })
  await expect(late).rejects.toMatchObject({ code: 'FILE_EXISTS' })
  await expect(backup(world.store, path)).rejects.toMatchObject({ code: 'FILE_EXISTS' })
  expect(readdirSync(dirname(path))).toEqual(['copy.db'])
  expect(statSync(path).size).toBe(4)
  await world.store.close()
})

test('a log that another database left beside the place would become its own, so it is refused', async () => {
  const world = await filledWorld(1)
  const path = join(tempDir(), 'copy.db')
  writeFileSync(`${path}-wal`, 'of another')
  await expect(backup(world.store, path)).rejects.toMatchObject({
    code: 'FILE_EXISTS',
    message: expect.stringContaining('copy.db-wal'),
  })
  const late = join(tempDir(), 'copy.db')
  const appears = backup(world.store, late, { onProgress: () => writeFileSync(`${late}-wal`, 'of another') })
  await expect(appears).rejects.toMatchObject({ code: 'FILE_EXISTS' })
  expect(readdirSync(dirname(late))).toEqual(['copy.db-wal'])
  await world.store.close()
})

test('a folder that is not there is said so', async () => {
  const world = await filledWorld(1)
  const path = join(tempDir(), 'nowhere', 'copy.db')
  await expect(backup(world.store, path)).rejects.toMatchObject({ code: 'FILE_UNWRITABLE' })
  await world.store.close()
})

test.each([
  ['rows are missing', 'DELETE FROM ready WHERE request_id = 7'],
  ['it is of another life', `UPDATE store SET incarnation = 'another'`],
  ['it is of another schema', 'UPDATE store SET schema_version = 1'],
  ['a table is missing', 'DROP TABLE events'],
])('a copy is not whole where %s', async (_, harm) => {
  const world = await filledWorld()
  await world.store.close()
  const db = new Database(world.path)
  const facts = factsOf(db)
  expect(faultOf(world.path, facts)).toBeNull()
  db.exec(harm)
  expect(faultOf(world.path, facts)).toMatch(/^it holds /)
  db.close()
})

test('a damaged page of the store is found, and no copy takes its name', async () => {
  const world = await filledWorld(500)
  await world.store.close()
  const file = openSync(world.path, 'r+')
  writeSync(file, Buffer.alloc(4096, 0xee), 0, 4096, 4096 * 20)
  closeSync(file)
  const { store } = await openWorld({ path: world.path })
  const path = join(tempDir(), 'copy.db')
  await expect(backup(store, path)).rejects.toMatchObject({
    code: expect.stringMatching(/^(BACKUP_UNVERIFIED|STORE_CORRUPT)$/),
  })
  expect(readdirSync(dirname(path))).toEqual([])
  await store.close()
})

test('an abort ends it and leaves nothing', async () => {
  const world = await filledWorld()
  const path = join(tempDir(), 'copy.db')
  const abort = new AbortController()
  const ended = backup(world.store, path, { signal: abort.signal, onProgress: () => abort.abort(new Error('enough')) })
  await expect(ended).rejects.toThrow('enough')
  expect(readdirSync(dirname(path))).toEqual([])
  await world.store.close()
})
