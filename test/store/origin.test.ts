// A store that was put back from a copy must not call: what it holds as ready may have been called since.
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { openStore } from '../../src/store/open-store.ts'
import { type CallRecord, type OwnFacts, originOf } from '../../src/store/origin.ts'
import { deathOf } from '../support/children.ts'
import { openWorld, type World } from '../support/store.ts'
import { putBack } from '../support/store-files.ts'
import { tempDir } from '../support/temp-dir.ts'

const PLACE = { path: '/var/jobs.db', inode: '7' }
const OWN: OwnFacts = { incarnation: 'i', highWaterAt: 100, hasCalled: true }
const RECORD: CallRecord = { incarnation: 'i', highWaterAt: 100, place: PLACE }

test.each<[string, Partial<OwnFacts>, Partial<CallRecord> | null, object]>([
  ['in step with its record', {}, {}, { kind: 'own' }],
  ['ahead of it, as after a crash right after a commit', { highWaterAt: 101 }, {}, { kind: 'own' }],
  ['without one, and without a call', { hasCalled: false }, null, { kind: 'own' }],
  ['in another folder, as the same file', {}, { place: { path: '/old/jobs.db', inode: '7' } }, { kind: 'own' }],
  ['in its place, with another inode', {}, { place: { path: '/var/jobs.db', inode: '8' } }, { kind: 'own' }],
  ['behind it', { highWaterAt: 99 }, {}, { kind: 'restored', why: 'behind', knownUntil: 99, calledUntil: 100 }],
  ['behind it, before its first call', { highWaterAt: 99, hasCalled: false }, {}, { kind: 'restored', why: 'behind' }],
  ['without one, after calls', {}, null, { kind: 'restored', why: 'no_record', calledUntil: null }],
  ['with the record of another', {}, { incarnation: 'j' }, { kind: 'restored', why: 'other_store' }],
  [
    'elsewhere, as another file',
    {},
    { place: { path: '/old/jobs.db', inode: '8' } },
    { kind: 'moved', from: '/old/jobs.db' },
  ],
])('a store %s', (_, own, record, expected) => {
  expect(originOf({ ...OWN, ...own }, record === null ? null : { ...RECORD, ...record }, PLACE)).toMatchObject(expected)
})

function replaceByFolder(path: string): void {
  rmSync(path)
  mkdirSync(path)
}

async function filled(requests = 3): Promise<World> {
  const world = await openWorld()
  for (let n = 0; n < requests; n++) await world.enqueue({ n })
  return world
}

/** A copy of now, as a backup makes it. */
async function copyOf({ store, path }: World): Promise<string> {
  const copy = join(dirname(path), 'copy.db')
  for (const suffix of ['', '-calls']) rmSync(copy + suffix, { force: true })
  writeFileSync(copy, '')
  await store.backup?.(copy, {})
  return copy
}

async function reopen(world: World, copy: string): Promise<World> {
  await world.store.close()
  putBack(copy, world.path)
  return openWorld({ path: world.path, now: world.clock.now })
}

test('what was put back claims nothing, and its rows are as they were', async () => {
  const world = await filled()
  const copy = await copyOf(world)
  expect((await world.turn({ slots: 1 })).calls).toHaveLength(1)
  const back = await reopen(world, copy)
  await expect(back.turn({ slots: 1 })).rejects.toMatchObject({ code: 'STORE_RESTORED' })
  expect((await back.store.status()).states).toEqual({ ready: 3 })
  expect(await back.store.origin()).toMatchObject({ kind: 'restored', why: 'behind', knownUntil: 1_000_000 })
  await back.store.close()
})

test('a copy that is opened itself claims nothing, whether or not its store had called when it was taken', async () => {
  const world = await filled()
  const early = await openWorld({ path: await copyOf(world) })
  await expect(early.turn({ slots: 1 })).rejects.toMatchObject({ code: 'STORE_RESTORED' })
  await early.store.close()
  await world.turn({ slots: 1 })
  const late = await openWorld({ path: await copyOf(world) })
  await expect(late.turn({ slots: 1 })).rejects.toMatchObject({ code: 'STORE_RESTORED' })
  await late.store.close()
  await world.store.close()
})

test('a file that a person moved with its record, and one that was copied with it, wait for a word', async () => {
  const world = await filled()
  await world.turn({ slots: 1 })
  await world.store.close()
  const folder = tempDir()
  const elsewhere = join(folder, 'jobs.db')
  for (const suffix of ['', '-calls']) copyFileSync(world.path + suffix, elsewhere + suffix)
  const moved = await openWorld({ path: elsewhere })
  await expect(moved.turn({ slots: 1 })).rejects.toMatchObject({ code: 'STORE_MOVED' })
  await moved.store.declareOwn('store_moved', { now: moved.clock.now, actor: 'test' }, {})
  expect((await moved.turn({ slots: 1 })).calls).toHaveLength(1)
  await moved.store.close()
  renameSync(folder, `${folder}-renamed`)
  const renamed = await openWorld({ path: join(`${folder}-renamed`, 'jobs.db') })
  expect((await renamed.turn({ slots: 1 })).calls).toHaveLength(1)
  await renamed.store.close()
  rmSync(`${folder}-renamed`, { recursive: true })
})

test('the record is there before the first claim commits, and in step after each', async () => {
  const world = await filled()
  expect(existsSync(`${world.path}-calls`)).toBe(false)
  for (let n = 0; n < 3; n++) {
    await world.turn({ slots: 1 })
    expect(JSON.parse(readFileSync(`${world.path}-calls`, 'utf8')).slice(0, 2)).toEqual([
      (await world.store.facts()).incarnation,
      (await world.store.facts()).highWaterAt,
    ])
  }
  await world.store.close()
})

test('two stores on one file leave the record of the later commit, whoever wrote last', async () => {
  const world = await filled(6)
  const other = await openWorld({ path: world.path, worker: { name: 'w2', boot: 'b2' } })
  for (const turn of [world, other, other, world]) await turn.turn({ slots: 1 })
  const [, highWaterAt] = JSON.parse(readFileSync(`${world.path}-calls`, 'utf8'))
  expect(highWaterAt).toBe((await world.store.facts()).highWaterAt)
  await other.store.close()
  await world.store.close()
})

test.each([
  ['torn', (path: string) => writeFileSync(path, '["half a li'), 'STORE_RESTORED'],
  ['removed', (path: string) => rmSync(path), 'STORE_RESTORED'],
  ['not a file', replaceByFolder, 'STORE_UNWRITABLE'],
])('where the record is %s nothing is called', async (_, harm, code) => {
  const world = await filled()
  await world.turn({ slots: 1 })
  harm(`${world.path}-calls`)
  await expect(world.turn({ slots: 1 })).rejects.toMatchObject({ code })
  expect((await world.store.status()).states).toEqual({ invoking: 1, ready: 2 })
  await world.store.close()
})

test('a store of an older schema begins its record with its first claim', async () => {
  const world = await filled()
  await world.turn({ slots: 1 })
  await world.store.close()
  const { default: Database } = await import('better-sqlite3')
  const db = new Database(world.path)
  db.exec('DROP VIEW request_overview; CREATE VIEW request_overview AS SELECT 1')
  db.exec(`DROP TABLE group_rotation; DROP INDEX requests_group; ALTER TABLE requests DROP COLUMN group_key;
    ALTER TABLE ready RENAME TO grouped; CREATE TABLE ready (target TEXT NOT NULL, rank INTEGER NOT NULL, due_at INTEGER NOT NULL,
      request_id INTEGER NOT NULL, PRIMARY KEY (target, rank, due_at, request_id)) STRICT, WITHOUT ROWID;
    INSERT INTO ready SELECT target, rank, due_at, request_id FROM grouped; DROP TABLE grouped`)
  db.exec(`DROP TABLE ordering_heads; DROP TABLE ordering_followers; ALTER TABLE requests DROP COLUMN ordering_key`)
  db.exec(`DROP TABLE expiries; DROP TABLE rankings;
    ALTER TABLE requests DROP COLUMN expires_at; ALTER TABLE task_state DROP COLUMN expires_at`)
  db.exec('DROP TABLE buckets; DROP TABLE bucket_members; DROP TABLE timed_pauses; DROP TABLE breakers')
  db.exec(
    'ALTER TABLE store DROP COLUMN has_called; ALTER TABLE store DROP COLUMN clock_ahead_ms; UPDATE store SET schema_version = 2',
  )
  db.close()
  rmSync(`${world.path}-calls`)
  const upgraded = await openWorld({ path: world.path })
  expect((await upgraded.turn({ slots: 1 })).calls).toHaveLength(1)
  expect(existsSync(`${world.path}-calls`)).toBe(true)
  await upgraded.store.close()
})

test('a store that is made anew beside the record of one that is gone is refused, and says what to do', async () => {
  const world = await filled()
  await world.turn({ slots: 1 })
  await world.store.close()
  for (const suffix of ['', '-wal', '-shm']) rmSync(world.path + suffix, { force: true })
  await expect(openWorld({ path: world.path })).rejects.toMatchObject({
    code: 'STORE_RESTORED',
    message: expect.stringContaining('jobs.db-calls'),
  })
  writeFileSync(world.path, '')
  await expect(openWorld({ path: world.path })).rejects.toMatchObject({ code: 'STORE_RESTORED' })
  rmSync(`${world.path}-calls`)
  const fresh = await openWorld({ path: world.path })
  await fresh.store.close()
})

test('whoever asks while another process claims never takes its store for a copy', async () => {
  const path = join(tempDir(), 'jobs.db')
  const store = await openStore(path, { create: true, now: Date.now() })
  let isOver = false
  const ended = deathOf(new URL('./claiming.mjs', import.meta.url), { store: path }).finally(() => {
    isOver = true
  })
  const answers = new Set<string>()
  while (!isOver) {
    for (let n = 0; n < 50; n++) answers.add((await store.origin()).kind)
    await new Promise<void>((resolve) => setImmediate(resolve))
  }
  expect(await ended).toBeNull()
  expect((await store.status()).states).toEqual({ submitted: 2000 })
  expect([...answers]).toEqual(['own'])
  await store.close()
})

test('another store’s record does not set this one’s clock', async () => {
  const world = await filled()
  await world.turn({ slots: 1 })
  writeFileSync(`${world.path}-calls`, `${JSON.stringify(['another', 4_102_444_800_000, '1', '/elsewhere'])}\n`)
  await world.store.declareOwn('store_restored', { now: world.clock.now, actor: 'test' }, {})
  expect((await world.store.facts()).highWaterAt).toBeLessThan(world.clock.now + 1000)
  await world.store.close()
})
