// Priorities changed after the enqueue: what is queued moves, what is in doubt returns with it, and a claim that was first wins.
import { expect, onTestFinished, test } from 'vitest'
import { defineTarget, openOnceish } from '../../src/index.ts'
import { type EachFilter, type SaidRequest, sayToEach } from '../../src/recovery/say-to-each.ts'
import type { OperatorWord } from '../../src/store/views.ts'
import { askStore } from '../support/ask-store.ts'
import { deathOf } from '../support/children.ts'
import { contentOf } from '../support/content.ts'
import { newLocation } from '../support/engine.ts'
import { accepted, answer, KEYED, notExecuted, openWorld, unknown, type World } from '../support/store.ts'

async function open(): Promise<World> {
  const world = await openWorld()
  onTestFinished(() => world.store.close())
  return world
}

const word = (world: World, given: Partial<OperatorWord> = {}): OperatorWord => {
  return { now: world.clock.now, actor: 'ada', note: null, ifVersion: null, ...given }
}

async function claimed(world: World, slots = 9): Promise<number[]> {
  return (await world.turn({ slots })).calls.map(({ requestId }) => requestId)
}

async function say(world: World, filter: EachFilter, priority: number, dryRun = false) {
  const told: SaidRequest[] = []
  const { ifVersion, ...spoken } = word(world)
  const report = await sayToEach(world.store, filter, {
    saying: { word: 'reprioritize', priority },
    word: spoken,
    ifVersion,
    dryRun,
    policyOf: () => KEYED,
    onEach: (said) => told.push(said),
  })
  return { report, told: told.map(({ requestId, result, priority }) => [requestId, result, priority]) }
}

test('a ready request moves to where its new priority puts it, once, and its story tells', async () => {
  const world = await open()
  for (let n = 1; n <= 3; n++) await world.enqueue({ n })
  expect(await world.store.reprioritize(3, 9, word(world, { note: 'vip' }))).toMatchObject({
    kind: 'applied',
    view: { requestId: 3, state: 'ready', priority: 9, version: 1 },
  })
  expect(await world.store.reprioritize(3, 9, word(world))).toMatchObject({ kind: 'unchanged' })
  expect(await world.store.get(3)).toMatchObject({
    events: [{ kind: 'reprioritized', actor: 'ada', detail: { from: 0, to: 9, note: 'vip' } }],
  })
  expect((await world.store.get(3))?.timeLine.at(-1)).toMatchObject({ said: 'priority 0 -> 9', note: 'vip' })
  expect(await claimed(world)).toEqual([3, 1, 2])
})

test('a scheduled one keeps its due time, and comes due with its new priority', async () => {
  const world = await open()
  const dueAt = world.clock.now + 1000
  await world.enqueue({ n: 1 })
  await world.enqueue({ n: 2 }, { dueAt, priority: -3, expiresAt: dueAt + 5 })
  expect(await world.store.reprioritize(2, 3, word(world))).toMatchObject({ view: { state: 'scheduled', dueAt } })
  world.clock.now = dueAt
  expect(await claimed(world)).toEqual([2, 1])
})

test('one that is called returns with it, and what is out stays as it was made', async () => {
  const world = await open()
  await world.enqueue({ n: 1 })
  const [call] = (await world.turn({ slots: 1 })).calls
  if (call === undefined) throw new Error('nothing was claimed')
  expect(await world.store.reprioritize(1, 9, word(world))).toMatchObject({
    kind: 'applied',
    view: { state: 'invoking', priority: 9, version: 1 },
  })
  // What a lookup would be asked with.
  expect((await world.store.get(1))?.taskState).toMatchObject({ priority: 0 })
  await world.enqueue({ n: 2 }, { priority: 5 })
  await world.turn({ results: [answer(call, notExecuted())] })
  world.clock.now += 1000
  expect(await claimed(world)).toEqual([1, 2])
})

test('a request in doubt too, without disturbing who looks into it', async () => {
  const world = await open()
  await world.enqueue({ n: 1 })
  const [call] = (await world.turn({ slots: 1 })).calls
  if (call === undefined) throw new Error('nothing was claimed')
  await world.turn({ results: [answer(call, unknown())] })
  const before = await world.store.get(1)
  expect(await world.store.reprioritize(1, 9, word(world))).toMatchObject({ kind: 'applied', view: { priority: 9 } })
  expect((await world.store.get(1))?.taskState).toEqual(before?.taskState)
})

test('what has ended is in no queue', async () => {
  const world = await open()
  await world.enqueue({ n: 1 })
  const [call] = (await world.turn({ slots: 1 })).calls
  if (call === undefined) throw new Error('nothing was claimed')
  await world.turn({ results: [answer(call, accepted('t'))] })
  expect(await world.store.reprioritize(1, 9, word(world))).toMatchObject({
    kind: 'refused',
    why: 'submitted requests are in no queue',
  })
  expect(await world.store.reprioritize(99, 9, word(world))).toEqual({ kind: 'not_found' })
})

test('by filter: ready and scheduled ones that fit, those in this state only, and nothing at all in a dry run', async () => {
  const world = await open()
  const later = world.clock.now + 1000
  await world.enqueue({ n: 1 })
  await world.enqueue({ n: 2 }, { dueAt: later })
  await world.enqueue({ n: 3 }, { target: 'opaque' })
  await world.enqueue({ n: 4 }, { priority: 5 })
  const before = await contentOf(world.path)
  const wouldBe = await say(world, { target: 'keyed' }, 5, true)
  expect(await contentOf(world.path)).toEqual(before)
  expect(wouldBe).toMatchObject({
    report: { applied: 2, unchanged: 1, dryRun: true },
    told: [
      [1, 'applied', 5],
      [2, 'applied', 5],
      [4, 'unchanged', 5],
    ],
  })
  expect(await say(world, { target: 'keyed', state: 'scheduled' }, 7)).toMatchObject({ told: [[2, 'applied', 7]] })
  expect(await say(world, { state: 'ready' }, 5)).toMatchObject({ report: { applied: 2, unchanged: 1 } })
  await expect(say(world, { state: 'held' }, 5)).rejects.toMatchObject({ code: 'USAGE' })
  await expect(say(world, {}, 5)).rejects.toMatchObject({ code: 'USAGE' })
})

test('a claim between the look and the word is first', async () => {
  const world = await open()
  await world.enqueue({ n: 1 })
  const seen = await world.store.queued({}, 0, 10)
  expect(seen).toEqual([{ requestId: 1, version: 0, state: 'ready' }])
  await world.turn({ slots: 1 })
  const { ifVersion: _, ...spoken } = word(world)
  const saying = { word: 'reprioritize', priority: 9 } as const
  const results = await world.store.sayToEach(seen, saying, spoken, { dryRun: false, policyOf: () => KEYED })
  expect(results).toMatchObject([{ kind: 'version_changed', view: { state: 'invoking', priority: 0 } }])
})

test('while another process claims, each request is called once, and each word is applied or refused whole', async () => {
  const store = newLocation()
  const validate = (value: unknown) => ({ value })
  const payload = { '~standard': { version: 1, vendor: 'test', validate } } as const
  const target = defineTarget({
    name: 'quick',
    version: '1',
    payload,
    invoke: () => ({ taskId: 'none is called here' }),
  })
  const once = await openOnceish({ store, targets: [target] })
  onTestFinished(() => once.close())
  // Those at least are told before the other process is up.
  await once.enqueueMany(Array.from({ length: 500 }, (_, n) => ({ target: 'quick', payload: `mine ${n}` })))
  let { applied } = await once.reprioritizeWhere({ target: 'quick' }, 7)
  expect(applied).toBe(500)
  let isOver = false
  const ended = deathOf(new URL('./claiming.mjs', import.meta.url), { store }).finally(() => {
    isOver = true
  })
  for (let round = 1; !isOver; round++) {
    const report = await once.reprioritizeWhere({ target: 'quick' }, round % 5)
    expect(report.refused).toMatchObject({ refused: 0, notFound: 0 })
    applied += report.applied
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(await ended).toBeNull()
  expect(applied).toBeGreaterThanOrEqual(500)
  expect(
    await askStore(
      store,
      `SELECT (SELECT COUNT(*) FROM task_state WHERE state = 'submitted' AND attempt = 1) AS first,
         (SELECT COUNT(*) FROM ready) + (SELECT COUNT(*) FROM requests) AS left_over`,
    ),
  ).toEqual([{ first: 2500, left_over: 0 }])
}, 60_000)
