// Queues that age: order, the word that says so, ranks that are moved a slice at a time, and how long each priority waits.
import { expect, onTestFinished, test } from 'vitest'
import type { NewRequest } from '../../src/store/store.ts'
import { askStore } from '../support/ask-store.ts'
import { hashRequest } from '../support/hash-request.ts'
import { openWorld, type World } from '../support/store.ts'

const MINUTE_MS = 60_000

async function open(): Promise<World> {
  const world = await openWorld({ now: Date.UTC(2030, 0, 1) })
  onTestFinished(() => world.store.close())
  return world
}

function rank(world: World, agingMs: number | null, target = 'keyed') {
  return world.store.rank([{ target, agingMs }], world.clock.now, 'worker:w')
}

let made = 0
async function put(world: World, priority: number, given: Partial<NewRequest> = {}): Promise<number> {
  return (await world.enqueue({ made: ++made }, { priority, ...given })).requestId
}

async function order(world: World, count = 99): Promise<number[]> {
  const ids: number[] = []
  for (;;) {
    const turn = await world.turn({ slots: count - ids.length })
    ids.push(...turn.calls.map(({ requestId }) => requestId))
    if (turn.calls.length === 0 && !turn.more) return ids
  }
}

async function readyRows(world: World): Promise<{ rank: number; due_at: number; request_id: number }[]> {
  const rows = await askStore(world.path, 'SELECT rank, due_at, request_id FROM ready ORDER BY request_id')
  return rows as { rank: number; due_at: number; request_id: number }[]
}

async function fill(world: World, count: number): Promise<void> {
  const requests = Array.from({ length: count }, (_, n): NewRequest => {
    const hashes = hashRequest({ target: 'keyed', payload: { fill: ++made } })
    const plain = { target: 'keyed', dedupe: 'always', orderingKey: null, group: null, expiresAt: null } as const
    return { ...plain, ...hashes, payload: '1', priority: n % 7, dueAt: world.clock.now - n }
  })
  await world.store.enqueue(requests, world.clock.now)
}

async function moveAll(world: World): Promise<number> {
  let turns = 0
  for (; (await world.turn()).more; turns++) if (turns > 100) throw new Error('it is moved without an end')
  return turns
}

test('one step of priority is worth so much waiting, also for what was scheduled and what comes back', async () => {
  const world = await open()
  await rank(world, MINUTE_MS)
  const low = await put(world, 0)
  const scheduled = await put(world, 1, { dueAt: world.clock.now + 30_000 })
  world.clock.now += 2 * MINUTE_MS
  const fresh = await put(world, 3)
  const younger = await put(world, 2)
  // Waited: 2 minutes, 1.5 minutes and one step, three steps, two steps and behind.
  expect(await order(world)).toEqual([fresh, scheduled, low, younger])
})

test('and without the word a low priority waits however old it is', async () => {
  const world = await open()
  const low = await put(world, 0)
  world.clock.now += 1000 * MINUTE_MS
  const high = await put(world, 1)
  expect(await order(world)).toEqual([high, low])
})

test('queues that age and queues that do not take their turns by what their heads come to', async () => {
  const world = await open()
  await rank(world, MINUTE_MS)
  const aged = await put(world, 0)
  const plain = await put(world, 2, { target: 'opaque' })
  const lower = await put(world, 0, { target: 'opaque' })
  world.clock.now += MINUTE_MS
  expect(await order(world, 1)).toEqual([plain])
  expect(await order(world)).toEqual([aged, lower])
  const old = await put(world, 0)
  world.clock.now += 5 * MINUTE_MS
  const high = await put(world, 4, { target: 'opaque' })
  expect(await order(world)).toEqual([old, high])
})

test('the newest word holds for all, is told, and is no news the second time', async () => {
  const world = await open()
  expect(await rank(world, MINUTE_MS)).toEqual([{ target: 'keyed', agingMs: MINUTE_MS, formerMs: null }])
  expect(await rank(world, MINUTE_MS)).toEqual([])
  expect((await world.turn()).agingMs).toEqual(new Map([['keyed', MINUTE_MS]]))
  expect(await rank(world, null)).toEqual([{ target: 'keyed', agingMs: null, formerMs: MINUTE_MS }])
  expect((await world.turn()).agingMs).toEqual(new Map())
  expect(await world.store.eventsAfter(0, 9)).toMatchObject([
    { kind: 'target_reranked', target: 'keyed', actor: 'worker:w', detail: { agingMs: MINUTE_MS, formerMs: null } },
    { kind: 'target_reranked', detail: { agingMs: null, formerMs: MINUTE_MS } },
  ])
})

test.each([
  ['on', [], MINUTE_MS],
  ['off', [MINUTE_MS], null],
  ['to another step', [MINUTE_MS], 5 * MINUTE_MS],
  ['and changed again before all were moved', [MINUTE_MS, null, 3 * MINUTE_MS], 5 * MINUTE_MS],
])('what waits is moved a slice a turn where aging is turned %s', async (_what, before, after) => {
  const world = await open()
  await fill(world, 300)
  for (const agingMs of before) {
    await rank(world, agingMs)
    await world.turn()
    await fill(world, 150)
  }
  await rank(world, after)
  const rows = await readyRows(world)
  const first = await world.turn()
  expect(first.more).toBe(true)
  const moved = (await readyRows(world)).filter(({ rank }, i) => rank !== rows[i]?.rank).length
  expect(moved).toBeLessThanOrEqual(200)
  expect(await moveAll(world)).toBeGreaterThan(0)
  const anew = await open()
  await rank(anew, after)
  for (const { priority, dueAt } of await world.store.list({ limit: 9999 })) await put(anew, priority, { dueAt })
  expect(await readyRows(world)).toEqual(await readyRows(anew))
  expect(await world.turn()).toMatchObject({ more: false })
})

test('ranked by priority alone again, nothing is left to know of it', async () => {
  const world = await open()
  await fill(world, 10)
  await rank(world, MINUTE_MS)
  await moveAll(world)
  await rank(world, null)
  await moveAll(world)
  expect(await askStore(world.path, 'SELECT * FROM rankings')).toEqual([])
})

test('in the middle of it each request is called once, and a word finds its row in either place', async () => {
  const world = await open()
  await fill(world, 500)
  await rank(world, MINUTE_MS)
  await world.turn()
  const word = { now: world.clock.now, actor: 'ada', note: null, ifVersion: null }
  for (const id of [1, 2, 250, 499, 500]) expect(await world.store.cancel(id, word)).toMatchObject({ kind: 'applied' })
  await world.store.reprioritize(3, 99, word)
  await world.store.reprioritize(498, 98, word)
  const called = await order(world, 999)
  expect(new Set(called).size).toBe(495)
  expect(called).toHaveLength(495)
  expect(await readyRows(world)).toEqual([])
})

test.each([
  ['by priority alone', null],
  ['by age', MINUTE_MS],
])('status tells of each priority since when its oldest has waited, ranked %s', async (_how, agingMs) => {
  const world = await open()
  await rank(world, agingMs)
  const at = world.clock.now
  for (const [priority, agoMs] of [
    [5, 10],
    [0, 7000],
    [5, 30],
    [-2, 50],
    [0, 20],
  ] as const)
    await put(world, priority, { dueAt: at - agoMs })
  await put(world, 1, { target: 'opaque', dueAt: at - 1 })
  await put(world, 9, { dueAt: at + 1000 })
  const { targets, oldestReady } = await world.store.status()
  expect(targets['keyed']?.oldestReady).toEqual([
    { priority: 5, since: at - 30 },
    { priority: 0, since: at - 7000 },
    { priority: -2, since: at - 50 },
  ])
  expect(targets['opaque']?.oldestReady).toEqual([{ priority: 1, since: at - 1 }])
  expect(oldestReady).toBe(at - 7000)
})

test('also while aging is being turned on and off', async () => {
  const world = await open()
  await fill(world, 450)
  const before = (await world.store.status()).targets['keyed']?.oldestReady
  expect(before).toHaveLength(7)
  await rank(world, MINUTE_MS)
  await world.turn()
  expect((await world.store.status()).targets['keyed']?.oldestReady).toEqual(before)
  await moveAll(world)
  await rank(world, null)
  await world.turn()
  expect((await world.store.status()).targets['keyed']?.oldestReady).toEqual(before)
})
