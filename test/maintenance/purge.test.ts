import Database from 'better-sqlite3'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ledgerHashOf } from '../../src/core/logical-hash.ts'
import { ENDED_STATES, TRANSITIONS } from '../../src/core/task-state.ts'
import { type PurgeOptions, type PurgeReport, purge } from '../../src/maintenance/purge.ts'
import { purgeSlice, readSlice } from '../../src/store/sqlite/purge.ts'
import { prepareStatements } from '../../src/store/sqlite/statements.ts'
import type { PurgeScope } from '../../src/store/upkeep.ts'
import { hashRequest } from '../support/hash-request.ts'
import { accepted, answer, KEYED, OPAQUE, openWorld, rejected, type World } from '../support/store.ts'

const HOUR = 3_600_000

interface Space extends World {
  readonly db: Database.Database
  /** A request that was submitted at the world's present time, and then made to be as `patch` says. */
  submitted(payload: unknown, patch?: Record<string, string | number | null>): Promise<number>
  rows(table: string): number
  purge(options?: Partial<PurgeOptions>): Promise<PurgeReport>
}

async function openSpace(): Promise<Space> {
  const world = await openWorld({ policies: { keyed: KEYED, opaque: OPAQUE } })
  const db = new Database(world.path)
  onTestFinished(async () => {
    db.close()
    await world.store.close()
  })
  return {
    ...world,
    db,
    submitted: async (payload, patch = {}) => {
      await world.enqueue(payload)
      const [call] = (await world.turn({ slots: 1 })).calls
      if (call === undefined) throw new Error('nothing was claimed')
      await world.turn({ results: [answer(call, accepted(`task-${call.requestId}`))] })
      patchRow(db, call.requestId, patch)
      return call.requestId
    },
    rows: (table) => db.prepare(`SELECT COUNT(*) FROM ${table}`).pluck().get() as number,
    purge: (options) =>
      purge(
        { store: world.store, now: world.clock.now, actor: 'test', keepPayloadMs: {} },
        { olderThanMs: HOUR, ...options },
      ),
  }
}

function patchRow(db: Database.Database, requestId: number, patch: Record<string, string | number | null>): void {
  for (const [table, values] of [['task_state', patch]] as const) {
    const names = Object.keys(values)
    if (names.length === 0) continue
    const sets = names.map((name) => `${name} = :${name}`).join(', ')
    db.prepare(`UPDATE ${table} SET ${sets} WHERE request_id = :request_id`).run({ ...values, request_id: requestId })
  }
}

const EVERYTHING = Object.keys(TRANSITIONS)
/** Asks for whatever there is: only the statement's own conditions are left between a row and its end. */
const GREEDY = { states: JSON.stringify(EVERYTHING), targets: null, before: Number.MAX_SAFE_INTEGER, abandoned: 1 }
const ABANDONED = { state: 'dead', task_id: null, abandoned: 1, doubtful_attempts: '1' }

describe('what the DELETE itself refuses, whatever it was asked for', () => {
  test.each([
    ['held', { state: 'held', task_id: null }, {}],
    ['unknown', { state: 'unknown', next_check_at: 5 }, {}],
    ['invoking', { state: 'invoking', task_id: null, lease_until: 5, frozen: '[]' }, {}],
    ['queued', { state: 'queued', task_id: null }, {}],
    ['submitted and still asked about', { next_check_at: 5 }, {}],
    ['ended with doubt that nobody has abandoned', { state: 'canceled', doubtful_attempts: '1' }, {}],
    ['abandoned, without the word for it', ABANDONED, { abandoned: 0 }],
    ['abandoned and since without doubt, without the word', { ...ABANDONED, doubtful_attempts: '' }, { abandoned: 0 }],
    ['changed since', {}, { before: 999_999 }],
    ['in a state not asked for', {}, { states: '["dead"]' }],
    ['of a target not asked for', {}, { targets: '["opaque"]' }],
  ])('a row that is %s', async (_, patch, scope) => {
    const { db, submitted } = await openSpace()
    const plain = await submitted('plain')
    const guarded = await submitted('guarded', patch)
    const sql = prepareStatements(db)
    expect(sql.purgeIfEnded.get({ ...GREEDY, ...scope, id: guarded })).toBeUndefined()
    expect(sql.purgeIfEnded.get({ ...GREEDY, id: plain })).toMatchObject({ state: 'submitted' })
  })

  test('a row with a task beyond the one it ended with: a person must see it whole', async () => {
    const { db, submitted } = await openSpace()
    const id = await submitted('twice')
    db.prepare(
      `INSERT INTO orphans (request_id, target, attempt, task_id, found_at) VALUES (?, 'keyed', 1, 'other', 5)`,
    ).run(id)
    expect(prepareStatements(db).purgeIfEnded.get({ ...GREEDY, id })).toBeUndefined()
  })

  test.each(ENDED_STATES)('and a row that is %s goes', async (state) => {
    const { db, submitted } = await openSpace()
    const id = await submitted('x', { state })
    expect(prepareStatements(db).purgeIfEnded.get({ ...GREEDY, id })).toMatchObject({ state })
  })
})

test('a request goes whole: row, payload, queue, events, and its logical hash is free', async () => {
  const { store, turn, enqueue, clock, rows, purge, db } = await openSpace()
  await enqueue({ n: 1 })
  const [call] = (await turn({ slots: 1 })).calls
  if (call === undefined) throw new Error('nothing was claimed')
  await turn({ results: [answer(call, rejected)] })
  db.exec(`INSERT INTO ready VALUES ('keyed', '', 0, 1000000, 1)`)
  expect([rows('requests'), rows('events')]).toEqual([1, 1])
  clock.now += HOUR
  expect(await purge()).toEqual({ purged: 1, byState: { dead: 1 }, kept: {}, payloads: 0, ms: expect.any(Number) })
  expect(['requests', 'task_state', 'ready', 'waiting'].map(rows)).toEqual([0, 0, 0, 0])
  expect(await store.get(1)).toBeNull()
  expect(db.prepare('SELECT request_id, kind, actor, detail FROM events').all()).toEqual([
    { request_id: null, kind: 'purged', actor: 'test', detail: '{"purged":1,"firstId":1,"lastId":1}' },
  ])
})

test('a new request under a purged hash takes the next generation, and so another key', async () => {
  const { turn, enqueue, submitted, clock, purge, db } = await openSpace()
  await submitted({ n: 1 })
  clock.now += HOUR
  await purge()
  const { logicalHash } = hashRequest({ target: 'keyed', payload: { n: 1 } })
  const ledger = db.prepare('SELECT request_id, generation FROM logical_hashes WHERE hash = ?')
  expect(ledger.get(ledgerHashOf('keyed', logicalHash))).toEqual({ request_id: null, generation: 1 })
  expect(await enqueue({ n: 1 })).toMatchObject({ kind: 'inserted', requestId: 2 })
  expect((await turn({ slots: 1 })).calls).toMatchObject([{ requestId: 2, generation: 2, key: 'key-2-2' }])
})

test('a hash that a newer request holds stays with it', async () => {
  const { store, enqueue, clock, purge, db } = await openSpace()
  await enqueue({ n: 1 })
  const word = { now: clock.now, actor: 'ada', note: null, ifVersion: null }
  await store.cancel(1, word)
  clock.now += HOUR
  await enqueue({ n: 1 })
  expect(await purge()).toMatchObject({ purged: 1, byState: { canceled: 1 } })
  expect(await enqueue({ n: 1 })).toMatchObject({ kind: 'duplicate', requestId: 2 })
  expect(db.prepare('SELECT generation FROM requests').pluck().all()).toEqual([2])
})

test('what stays is counted by its reason', async () => {
  const { submitted, clock, purge, db } = await openSpace()
  for (const patch of [
    { state: 'held', task_id: null },
    { state: 'unknown', next_check_at: 5 },
    { next_check_at: 5 },
    ABANDONED,
    { updated_at: 1_000_001 },
  ])
    await submitted(patch, patch)
  const orphaned = await submitted('orphan')
  db.prepare(
    `INSERT INTO orphans (request_id, target, attempt, task_id, found_at) VALUES (?, 'keyed', 1, 'other', 5)`,
  ).run(orphaned)
  await submitted('goes')
  clock.now += HOUR
  const kept = { inDoubt: 2, tracked: 1, abandoned: 1, tooRecent: 1, orphan: 1 }
  expect(await purge({ dryRun: true })).toMatchObject({ purged: 1, byState: { submitted: 1 }, kept })
  expect(await purge()).toMatchObject({ purged: 1, byState: { submitted: 1 }, kept })
  expect(await purge({ targets: ['opaque'] })).toMatchObject({ purged: 0, kept: {} })
  expect(await purge({ states: ['dead'], abandoned: true })).toMatchObject({ purged: 1, kept: { inDoubt: 2 } })
})

test('a dry run removes and notes nothing', async () => {
  const { submitted, clock, purge, rows } = await openSpace()
  await submitted({ n: 1 })
  clock.now += HOUR
  const before = [rows('task_state'), rows('events')]
  expect(await purge({ dryRun: true })).toMatchObject({ purged: 1 })
  expect([rows('task_state'), rows('events')]).toEqual(before)
})

test('of doubt that a person abandoned, what is needed to ask the API by hand is noted', async () => {
  const { submitted, clock, purge, db } = await openSpace()
  const id = await submitted('given up', ABANDONED)
  clock.now += HOUR
  expect(await purge({ abandoned: true })).toMatchObject({ purged: 1, byState: { dead: 1 } })
  const detail = JSON.parse(db.prepare(`SELECT detail FROM events WHERE kind = 'purged'`).pluck().get() as string)
  expect(detail.abandoned).toEqual([
    { requestId: id, target: 'keyed', idempotencyKey: `key-${id}-1`, doubtfulAttempts: '1' },
  ])
})

test('a row that somebody takes back between the look and the deletion stays', async () => {
  const { store, submitted, clock, db } = await openSpace()
  const id = await submitted('dead', { state: 'dead', task_id: null })
  db.exec(`INSERT INTO requests (request_id, target, logical_hash, priority, due_at, generation, dedupe, created_at, payload)
      SELECT request_id, target, logical_hash, priority, 5, generation, 'always', 5, '1'
    FROM task_state`)
  clock.now += HOUR
  const sql = prepareStatements(db)
  const scope: PurgeScope = { before: clock.now, states: ENDED_STATES, targets: null, abandoned: false }
  const slice = readSlice(sql, 0, scope)
  expect(slice.rows).toMatchObject([{ request_id: id, is_purgeable: 1 }])
  await store.retry(id, { now: clock.now, actor: 'ada', note: null, ifVersion: null }, { policyOf: () => KEYED })
  const word = { now: clock.now, actor: 'test', dryRun: false }
  expect(db.transaction(() => purgeSlice(sql, slice, 0, scope, word)).immediate()).toMatchObject({ purged: {} })
  expect(await store.get(id)).toMatchObject({ state: 'ready' })
})

describe('one step is small', () => {
  async function manyDead(count: number, payloadBytes: number): Promise<Space> {
    const space = await openSpace()
    space.db.exec(`
      WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < ${count})
      INSERT INTO requests (request_id, target, logical_hash, priority, due_at, generation, dedupe, created_at, payload)
      SELECT id, 'keyed', 'h' || id, 0, 5, 1, 'always', 5, '"' || hex(zeroblob(${payloadBytes / 2})) || '"'
        FROM n;
      INSERT INTO task_state (request_id, state, target, logical_hash, priority, version, attempt, nonce, generation,
        attempts, created_at, updated_at) SELECT request_id, 'dead', target, logical_hash, 0, 1, 1, '', 1, 1, 5, 5 FROM requests`)
    return space
  }
  const scope: PurgeScope = { before: 5, states: ENDED_STATES, targets: null, abandoned: false }
  const word = { now: 5, actor: 'test', dryRun: false }

  test('by rows', async () => {
    const { store, purge } = await manyDead(450, 10)
    const first = await store.purgeAfter(0, scope, word)
    expect(first.purged.dead).toBeGreaterThan(0)
    expect(first.purged.dead).toBeLessThanOrEqual(200)
    expect(first).toMatchObject({ lastId: first.purged.dead, highestId: 450, done: false })
    expect(await purge({ olderThanMs: 0 })).toMatchObject({ purged: 450 - (first.purged.dead ?? 0) })
  })

  test('by bytes', async () => {
    const { store, purge } = await manyDead(30, 1_048_576)
    const { purged, done } = await store.purgeAfter(0, scope, word)
    expect(done).toBe(false)
    expect(purged.dead).toBeLessThanOrEqual(9)
    expect(await purge({ olderThanMs: 0 })).toMatchObject({ purged: 30 - (purged.dead ?? 0) })
  })

  test('and how far it is, is told after each', async () => {
    const { purge } = await manyDead(450, 10)
    const told: number[] = []
    await purge({ olderThanMs: 0, onProgress: ({ lastId }) => told.push(lastId) })
    expect(told.length).toBeGreaterThanOrEqual(3)
    expect(told.at(-1)).toBe(450)
  })
})

test('rows that were enqueued while it runs do not keep it from its end', async () => {
  const { submitted, enqueue, clock, purge } = await openSpace()
  await submitted({ n: 1 })
  clock.now += HOUR
  let more = 0
  const report = await purge({
    onProgress: () => {
      more++
      void enqueue({ more })
    },
  })
  expect(report).toMatchObject({ purged: 1 })
  expect(more).toBe(1)
})

test.each([
  ['held', /onceish resolve/],
  ['unknown', /onceish recover.*onceish resolve/],
  ['invoking', /onceish resolve/],
  ['ready', /onceish cancel/],
  ['scheduled', /onceish cancel/],
])('%s requests are refused with the way out', async (state, way) => {
  const { purge } = await openSpace()
  await expect(purge({ states: [state as never] })).rejects.toMatchObject({
    code: 'USAGE',
    message: expect.stringMatching(way),
  })
})

test.each([-1, 0.5, Number.NaN, undefined])('an age of %s is refused', async (olderThanMs) => {
  const { purge } = await openSpace()
  await expect(purge({ olderThanMs: olderThanMs as number })).rejects.toMatchObject({ code: 'USAGE' })
})

test('a late answer of a purged request stays on record as a task that a person must look at', async () => {
  const { store, enqueue, turn, clock, purge, db } = await openSpace()
  await enqueue({ n: 1 })
  const [call] = (await turn({ slots: 1 })).calls
  if (call === undefined) throw new Error('nothing was claimed')
  patchRow(db, call.requestId, { ...ABANDONED })
  clock.now += HOUR
  expect(await purge({ abandoned: true })).toMatchObject({ purged: 1 })
  const late = await turn({ results: [answer(call, accepted('late'))] })
  expect(late.settled).toMatchObject([{ applied: false, reason: 'purged_request' }])
  expect(await store.orphans(10)).toMatchObject([{ requestId: call.requestId, target: 'keyed', taskId: 'late' }])
})

test('a late answer of a purged request that shows that it happened, and names no task, is told by an event', async () => {
  const { enqueue, turn, clock, purge, db } = await openSpace()
  await enqueue({ n: 1 })
  const [call] = (await turn({ slots: 1 })).calls
  if (call === undefined) throw new Error('nothing was claimed')
  patchRow(db, call.requestId, { ...ABANDONED })
  clock.now += HOUR
  expect(await purge({ abandoned: true })).toMatchObject({ purged: 1 })
  const executed = { kind: 'accepted_without_id', evidence: { phase: 'answered', status: 200 } } as const
  await turn({ results: [answer(call, executed)] })
  const events = db.prepare(`SELECT kind, reason, detail FROM events WHERE request_id = ?`).all(call.requestId)
  expect(events).toMatchObject([{ kind: 'late_answer', reason: 'purged: accepted_without_id' }])
  expect((events[0] as { detail: string }).detail).toContain('"status":200')
})
