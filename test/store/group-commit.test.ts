// Writers of one process share commits: who waits together is synced together, answered apart, and fails alone.
import { spawn } from 'node:child_process'
import { once as nextEvent } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { expect, onTestFinished, test } from 'vitest'
import { GROUP_ROWS } from '../../src/store/sqlite/group-commit.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { NewRequest, Store, StoreProbe } from '../../src/store/store.ts'
import { hashRequest } from '../support/hash-request.ts'
import { accepted, answer, openWorld, type Taken } from '../support/store.ts'
import { tempDir } from '../support/temp-dir.ts'

function requestOf(n: number, given?: string): NewRequest {
  const hashes = hashRequest({ target: 'keyed', payload: { n }, given })
  const base = {
    target: 'keyed',
    priority: 0,
    dueAt: null,
    orderingKey: null,
    group: null,
    dedupe: 'always',
    expiresAt: null,
  } as const
  return { ...base, payload: JSON.stringify({ n }), ...hashes }
}

const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)
const enqueueEach = (store: Store, numbers: readonly number[]) => numbers.map((n) => store.enqueue([requestOf(n)], 1))

/** Commits in the write-ahead log: frames that end one say so in their headers. */
function commitsIn(path: string): number {
  const log = readFileSync(`${path}-wal`)
  const frameBytes = 24 + log.readUInt32BE(8)
  const salt = log.toString('hex', 16, 24)
  let commits = 0
  for (let at = 32; at < log.length && log.toString('hex', at + 8, at + 16) === salt; at += frameBytes) {
    if (log.readUInt32BE(at + 4) > 0) commits++
  }
  return commits
}

async function open(options: { probe?: StoreProbe; busyForMs?: number } = {}) {
  const path = join(tempDir(), 'jobs.db')
  const store = await openSqliteStore({ path, create: true, now: 1, ...options })
  const other = new Database(path)
  onTestFinished(async () => {
    other.close()
    await store.close()
  })
  const before = commitsIn(path)
  return {
    store,
    /** Another connection. */
    other,
    commits: () => commitsIn(path) - before,
    stored: () => other.prepare(`SELECT payload ->> 'n' FROM requests ORDER BY request_id`).pluck().all(),
  }
}

/** What SQLite throws for the request `n`, however it ends the transaction. */
function refuse(db: Database.Database, n: number, how: string): void {
  db.exec(`CREATE TRIGGER refuse_${n} BEFORE INSERT ON requests WHEN NEW.payload = '{"n":${n}}'
    BEGIN SELECT RAISE(${how}, 'not ${n}'); END`)
}

test('enqueues of one moment are one commit, each answered by its own result, in the order in which they came', async () => {
  const { store, commits, stored } = await open()
  const told: number[] = []
  store.onCommit(() => told.push(commits()))
  const results = await Promise.all(enqueueEach(store, [3, 1, 2, 1]))
  expect(results.map(([result]) => [result?.kind, (result as Taken).requestId])).toEqual([
    ['inserted', 1],
    ['inserted', 2],
    ['inserted', 3],
    ['duplicate', 2],
  ])
  expect(stored()).toEqual([3, 1, 2])
  expect(commits()).toBe(1)
  expect(told).toEqual([1])
})

test('one after another they are a commit each', async () => {
  const { store, commits } = await open()
  for (const n of upTo(3)) await store.enqueue([requestOf(n)], 1)
  expect(commits()).toBe(3)
})

test.each(['ABORT', 'FAIL', 'ROLLBACK'])('one that SQLite refuses by %s fails alone', async (how) => {
  const { store, other, stored } = await open()
  refuse(other, 2, how)
  const ended = await Promise.allSettled(enqueueEach(store, upTo(5)))
  expect(ended.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
  expect(ended[2]).toMatchObject({ reason: expect.objectContaining({ message: expect.stringContaining('not 2') }) })
  expect(stored()).toEqual([0, 1, 3, 4])
})

test('a batch that stops at a conflict is undone alone, in the commit of the others', async () => {
  const { store, commits, stored } = await open()
  await store.enqueue([requestOf(1, 'x')], 1)
  const before = commits()
  const [first, batch, last] = await Promise.all([
    store.enqueue([requestOf(2)], 1),
    store.enqueue([requestOf(3), requestOf(4, 'x')], 1, { stopAtRefusal: true }),
    store.enqueue([requestOf(5)], 1),
  ])
  expect([first, batch, last].map((results) => results.map(({ kind }) => kind))).toEqual([
    ['inserted'],
    ['inserted', 'conflict'],
    ['inserted'],
  ])
  expect(stored()).toEqual([1, 2, 5])
  expect(commits() - before).toBe(1)
})

test('a turn takes along what waits, and claims it in the same commit', async () => {
  const { store, path, enqueue, turn } = await openWorld()
  onTestFinished(() => store.close())
  const before = commitsIn(path)
  const [{ requestId }, { calls }] = await Promise.all([enqueue({ n: 1 }), turn({ slots: 4 })])
  expect(calls.map((call) => call.requestId)).toEqual([requestId])
  expect(commitsIn(path) - before).toBe(1)
})

test('work is told of before its commit, so that a turn can join it', async () => {
  const { store, path, enqueue, turn } = await openWorld()
  onTestFinished(() => store.close())
  const turns: ReturnType<typeof turn>[] = []
  store.onWork(() => queueMicrotask(() => turns.push(turn({ slots: 1 }))))
  const before = commitsIn(path)
  const { requestId } = await enqueue({ n: 1 })
  const [joined] = await Promise.all(turns)
  expect(joined?.calls.map((call) => call.requestId)).toEqual([requestId])
  expect(commitsIn(path) - before).toBe(1)
})

test('a turn that fails takes no enqueue with it, nor an enqueue a turn', async () => {
  const { store, path, enqueue, turn } = await openWorld()
  const other = new Database(path)
  onTestFinished(async () => {
    other.close()
    await store.close()
  })
  await enqueue({ n: 1 })
  const { calls } = await turn({ slots: 1 })
  other.exec(`CREATE TRIGGER no_claims BEFORE INSERT ON task_state BEGIN SELECT RAISE(ABORT, 'no claims'); END`)
  const [enqueued, claim] = await Promise.allSettled([enqueue({ n: 2 }), turn({ slots: 1 })])
  expect(enqueued).toMatchObject({ value: { kind: 'inserted', state: 'ready' } })
  expect(claim).toMatchObject({ reason: expect.objectContaining({ message: 'no claims' }) })
  refuse(other, 3, 'ROLLBACK')
  const results = calls.map((call) => answer(call, accepted('t1')))
  const [refused, settled] = await Promise.allSettled([enqueue({ n: 3 }), turn({ results })])
  expect(refused.status).toBe('rejected')
  expect(settled).toMatchObject({ value: { settled: [{ state: 'submitted', applied: true }] } })
  expect((await store.status()).states).toEqual({ submitted: 1, ready: 1 })
})

test('a group is bounded, and the event loop goes round between two', async () => {
  const { store, commits } = await open()
  const rounds: number[] = []
  let round = 0
  const count = () => {
    round++
    if (rounds.length < 3) setImmediate(count)
  }
  setImmediate(count)
  store.onCommit(() => rounds.push(round))
  await Promise.all(enqueueEach(store, upTo(3 * GROUP_ROWS)))
  expect(commits()).toBe(3)
  expect(new Set(rounds).size).toBe(3)
})

test('a caller that never lets the event loop go waits for commits, so that what waits is bounded', async () => {
  const { store, stored } = await open()
  const enqueued = Promise.all(enqueueEach(store, upTo(2000)))
  expect(stored().length).toBeGreaterThan(0)
  await enqueued
  expect(stored()).toEqual(upTo(2000))
})

test('a large batch commits alone, in its place', async () => {
  const { store, commits, stored } = await open()
  const batch = upTo(GROUP_ROWS).map((n) => requestOf(100 + n))
  await Promise.all([...enqueueEach(store, [0, 1]), store.enqueue(batch, 1), ...enqueueEach(store, [2, 3])])
  expect(commits()).toBe(3)
  expect(stored()).toEqual([0, 1, ...upTo(GROUP_ROWS).map((n) => 100 + n), 2, 3])
})

test('a long payload counts as the many rows that take as long to write', async () => {
  const { store, commits } = await open()
  const long = upTo(4).map((n) => ({ ...requestOf(n), payload: JSON.stringify({ n, text: 'x'.repeat(2 ** 20) }) }))
  await Promise.all(long.map((request) => store.enqueue([request], 1)))
  expect(commits()).toBe(4)
})

test('while another process holds the lock all wait, and commit together once it is free', async () => {
  const { store, other, commits } = await open()
  other.exec('BEGIN IMMEDIATE')
  const enqueued = enqueueEach(store, [1, 2])
  setImmediate(() => {
    enqueued.push(...enqueueEach(store, [3]))
    other.exec('ROLLBACK')
  })
  await Promise.all(enqueued)
  await enqueued[2]
  expect(commits()).toBe(1)
})

test('a lock that is held too long is told to each, and the store goes on afterwards', async () => {
  const { store, other, stored } = await open({ busyForMs: 0 })
  other.exec('BEGIN IMMEDIATE')
  const ended = await Promise.allSettled(enqueueEach(store, [1, 2]))
  const busy = { reason: expect.objectContaining({ code: 'STORE_BUSY' }) }
  expect(ended).toMatchObject([busy, busy])
  other.exec('ROLLBACK')
  await store.enqueue([requestOf(3)], 1)
  expect(stored()).toEqual([3])
})

test('a lock that is held too long is told to all at once, however many wait', async () => {
  const { store, other } = await open({ busyForMs: 0 })
  other.exec('BEGIN IMMEDIATE')
  const since = performance.now()
  const ended = await Promise.allSettled(enqueueEach(store, upTo(8 * GROUP_ROWS - 1)))
  // One try waits 200 ms for the lock, holding the event loop.
  expect(performance.now() - since).toBeLessThan(1000)
  expect(new Set(ended.map((one) => (one as PromiseRejectedResult).reason.code))).toEqual(new Set(['STORE_BUSY']))
})

test('a sync that fails is told to all whom it was for, and none is tried again', async () => {
  let isBroken = true
  let tries = 0
  const probe: StoreProbe = (moment, commit) => {
    if (commit !== 'enqueue' || moment !== 'before-commit') return
    tries++
    if (isBroken) throw new Database.SqliteError('disk I/O error', 'SQLITE_IOERR_FSYNC')
  }
  const { store, stored } = await open({ probe })
  const ended = await Promise.allSettled(enqueueEach(store, [1, 2]))
  const failed = { reason: expect.objectContaining({ code: 'STORE_SYNC_FAILED' }) }
  expect(ended).toMatchObject([failed, failed])
  expect(tries).toBe(1)
  isBroken = false
  await store.enqueue([requestOf(3)], 1)
  expect(stored()).toEqual([3])
})

test('a probe hears of each part before the commit and after it; what it throws then is for one caller', async () => {
  const heard: string[] = []
  const probe: StoreProbe = (moment, commit) => {
    if (commit === 'migrate') return
    heard.push(`${moment} ${commit}`)
    if (heard.length === 4) throw new Error('told as failed')
  }
  const { store, stored } = await open({ probe })
  const ended = await Promise.allSettled([store.enqueue([requestOf(1)], 1), store.pause('keyed', null, 'a', 1)])
  expect(heard).toEqual(['before-commit enqueue', 'before-commit pause', 'after-commit enqueue', 'after-commit pause'])
  expect(ended.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
  expect(stored()).toEqual([1])
})

test('closing commits what waits, and takes nothing more', async () => {
  const { store, stored } = await open()
  const enqueued = enqueueEach(store, [1, 2])
  const closed = store.close()
  await expect(store.enqueue([requestOf(3)], 1)).rejects.toMatchObject({ code: 'STORE_CLOSED' })
  await closed
  expect(await Promise.all(enqueued)).toMatchObject([[{ kind: 'inserted' }], [{ kind: 'inserted' }]])
  expect(stored()).toEqual([1, 2])
})

test('a process that is killed while many enqueue at once leaves every request that was acknowledged', async () => {
  const path = join(tempDir(), 'jobs.db')
  const script = fileURLToPath(new URL('./enqueuing.mjs', import.meta.url))
  const child = spawn(process.execPath, [script, path], { stdio: ['ignore', 'pipe', 'inherit'] })
  let told = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    told += part
    if (told.length > 5000) child.kill('SIGKILL')
  })
  const [, signal] = await nextEvent(child, 'close')
  expect(signal).toBe('SIGKILL')
  const acknowledged = told.slice(0, told.lastIndexOf('\n')).split('\n').map(Number)
  expect(acknowledged.length).toBeGreaterThan(1000)
  const db = new Database(path)
  onTestFinished(() => void db.close())
  const stored = new Set(db.prepare(`SELECT payload ->> 'n' FROM requests`).pluck().all())
  expect(acknowledged.filter((n) => !stored.has(n))).toEqual([])
  expect(db.pragma('integrity_check', { simple: true })).toBe('ok')
})
