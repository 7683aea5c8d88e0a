// Requests of one target that share an ordering key: one at a time, in the order of their ids, whatever becomes of the first.
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import type { TargetPolicy } from '../../src/core/policy.ts'
import { ENDED_STATES } from '../../src/core/task-state.ts'
import type { ClaimedCall } from '../../src/store/turn.ts'
import { testOnSqlite } from '../support/engine.ts'
import { lineFaults } from '../support/line-faults.ts'
import {
  accepted,
  answer,
  KEYED,
  LOOKUP,
  notExecuted,
  OPAQUE,
  openWorld,
  rejected,
  unknown,
  type World,
} from '../support/store.ts'

const GOING_ON: TargetPolicy = { ...KEYED, onDead: 'continue' }
const word = { now: 1_000_000, actor: 'ada', note: null, ifVersion: null }
const policies = { keyed: KEYED, opaque: OPAQUE, lookup: LOOKUP, goingOn: GOING_ON }

async function open(): Promise<World & { close(): Promise<void> }> {
  const world = await openWorld({ policies })
  return {
    ...world,
    close: async () => {
      expect(await lineFaults(world.path)).toEqual([])
      await world.store.close()
    },
  }
}

async function enqueueKeys(world: World, keys: readonly (string | null)[], target = 'keyed'): Promise<void> {
  for (const [n, orderingKey] of keys.entries()) await world.enqueue({ n, target }, { target, orderingKey })
}

async function claimed(world: World, results: Parameters<World['turn']>[0] = {}): Promise<readonly ClaimedCall[]> {
  return (await world.turn({ slots: 9, ...results })).calls
}
const idsOf = (calls: readonly ClaimedCall[]) => calls.map(({ requestId }) => requestId)

test('of a key one is called at a time, in the order of ids, whatever their priorities; keys and targets wait for nobody else', async () => {
  const world = await open()
  await enqueueKeys(world, ['a', 'a', 'b', null, 'a'])
  await world.enqueue({ n: 'urgent' }, { orderingKey: 'a', priority: 9 })
  await world.enqueue({ n: 'elsewhere' }, { orderingKey: 'a', target: 'opaque' })
  let calls = await claimed(world)
  expect(idsOf(calls)).toEqual([1, 3, 4, 7])
  const order: number[] = []
  for (let turn = 0; turn < 4; turn++) {
    const [first] = calls
    if (first === undefined) break
    order.push(first.requestId)
    calls = await claimed(world, { results: [answer(first, accepted(`t${first.requestId}`))] })
    expect(calls.length).toBeLessThanOrEqual(1)
  }
  expect(order).toEqual([1, 2, 5, 6])
  await world.close()
})

test.each([
  ['backs off', notExecuted(), 'scheduled'],
  ['is in doubt', unknown(), 'unknown'],
] as const)('whoever is first keeps the turn while it %s', async (_, outcome, state) => {
  const world = await open()
  await enqueueKeys(world, ['a', 'a'])
  const [first] = await claimed(world)
  expect(await claimed(world, { results: [answer(first as ClaimedCall, outcome)] })).toEqual([])
  expect((await world.store.get(1))?.state).toBe(state)
  expect((await world.store.get(2))?.behind).toMatchObject({ requestId: 1, state })
  await world.close()
})

test('a request whose lease is over keeps the turn, and so does one that is held; a person who says what happened frees it', async () => {
  const world = await open()
  await enqueueKeys(world, ['a', 'a'], 'opaque')
  await claimed(world)
  world.clock.now += 60_000
  const { calls, investigations } = await world.turn({ slots: 9, investigations: 9 })
  expect(calls).toEqual([])
  const verdict = { kind: 'hold', reason: 'opaque', evidence: null } as const
  const { version } = investigations[0]?.row ?? { version: 0 }
  const held = { requestId: 1, target: 'opaque', version, policy: OPAQUE, verdict }
  expect(await claimed(world, { reconciliations: [held] })).toEqual([])
  expect(await world.store.get(2)).toMatchObject({
    state: 'ready',
    orderingKey: 'a',
    behind: { requestId: 1, state: 'held', reason: 'opaque' },
    line: { place: 2, waiting: 1 },
  })
  await world.store.resolve(1, { kind: 'task_id', taskId: 't' }, word, { force: false, policyOf: () => OPAQUE })
  expect(await world.store.get(2)).toMatchObject({ behind: null, line: { place: 1, waiting: 0 } })
  expect(idsOf(await claimed(world))).toEqual([2])
  await world.close()
})

async function deadAndFollower(target: 'keyed' | 'goingOn'): Promise<Awaited<ReturnType<typeof open>>> {
  const world = await open()
  await enqueueKeys(world, ['a', 'a', 'a'], target)
  const [first] = await claimed(world)
  const { calls } = await world.turn({ slots: 9, results: [answer(first as ClaimedCall, rejected)] })
  expect(idsOf(calls)).toEqual(target === 'keyed' ? [] : [2])
  return world
}

test('a dead request keeps the turn, unless its target says to go on', async () => {
  const blocking = await deadAndFollower('keyed')
  expect((await blocking.store.get(2))?.behind).toMatchObject({ requestId: 1, state: 'dead', reason: 'rejected' })
  await blocking.close()
  const goingOn = await deadAndFollower('goingOn')
  expect((await goingOn.store.get(2))?.behind).toBeNull()
  await goingOn.close()
})

test.each([
  ['retried', [1]],
  ['canceled', [2]],
  ['purged', [2]],
] as const)('a dead one that is %s leaves the turn to whoever is first then', async (how, expected) => {
  const world = await deadAndFollower('keyed')
  if (how === 'retried') await world.store.retry(1, word, { policyOf: () => KEYED })
  if (how === 'canceled') await world.store.cancel(1, word)
  if (how === 'purged') {
    const scope = { before: word.now, states: ENDED_STATES, targets: null, abandoned: false }
    await world.store.purgeAfter(0, scope, { ...word, dryRun: false })
  }
  expect(idsOf(await claimed(world))).toEqual(expected)
  await world.close()
})

test('one that a person gives up in doubt frees those behind it, also where the dead block', async () => {
  const world = await open()
  await enqueueKeys(world, ['a', 'a'])
  const [first] = await claimed(world)
  await claimed(world, { results: [answer(first as ClaimedCall, unknown())] })
  await world.store.resolve(1, { kind: 'abandon' }, word, { force: false, policyOf: () => KEYED })
  expect(idsOf(await claimed(world))).toEqual([2])
  await world.close()
})

test('a retried one takes the turn from one of a higher id that only waits, and waits for one that is called', async () => {
  const world = await deadAndFollower('goingOn')
  // 2 is called, 3 stands behind it.
  await world.store.retry(1, word, { policyOf: () => GOING_ON })
  expect(await world.store.get(1)).toMatchObject({
    state: 'ready',
    behind: { requestId: 2, state: 'invoking' },
    line: { place: 2, waiting: 2 },
  })
  await world.close()

  const waiting = await open()
  await enqueueKeys(waiting, ['a', 'a'], 'goingOn')
  const [first] = await claimed(waiting)
  await waiting.turn({ results: [answer(first as ClaimedCall, rejected)] })
  await waiting.store.retry(1, word, { policyOf: () => GOING_ON })
  expect((await waiting.store.get(2))?.behind).toMatchObject({ requestId: 1 })
  const [again] = await claimed(waiting)
  expect(again?.requestId).toBe(1)
  expect(idsOf(await claimed(waiting, { results: [answer(again as ClaimedCall, accepted('t'))] }))).toEqual([2])
  await waiting.close()
})

test('one that is called while one of a lower id was queued again lets it go first when it is queued again itself', async () => {
  const world = await open()
  await enqueueKeys(world, ['a', 'a'], 'goingOn')
  const [first] = await claimed(world)
  const [second] = await claimed(world, { results: [answer(first as ClaimedCall, rejected)] })
  await world.store.retry(1, word, { policyOf: () => GOING_ON })
  const [next] = await claimed(world, { results: [answer(second as ClaimedCall, notExecuted())] })
  expect(next?.requestId).toBe(1)
  expect(await claimed(world)).toEqual([])
  world.clock.now += 10_000
  const later = await claimed(world, { results: [answer(next as ClaimedCall, accepted('t'), world.clock.now)] })
  expect(idsOf(later)).toEqual([2])
  await world.close()
})

test.each(['keyed', 'goingOn'])(
  'a payload that does not fit the description ends %s in the middle of a claim',
  async (target) => {
    const world = await open()
    await enqueueKeys(world, ['a', null, 'a', null, 'a'], target)
    const prepare = (request: { requestId: number }) =>
      request.requestId === 1
        ? ({ kind: 'dead', reason: 'render_failed', note: 'no' } as const)
        : ({
            kind: 'prepared',
            key: `key-${request.requestId}`,
            call: { method: 'POST', url: 'http://127.0.0.1/', headers: {}, body: null, account: null },
            targetVersion: 'v1',
          } as const)
    const claim = { slots: 9, targets: [{ name: target, policy: policies[target as 'keyed'] }], prepare }
    const { calls, moreReady } = await world.turn({ claim })
    expect(idsOf(calls)).toEqual([2, 4])
    expect(moreReady).toBe(target === 'goingOn')
    expect(idsOf((await world.turn({ claim })).calls)).toEqual(target === 'goingOn' ? [3] : [])
    await world.close()
  },
)

test('a first one that is due later keeps the others waiting: in order means in order', async () => {
  const world = await open()
  await world.enqueue({ n: 1 }, { orderingKey: 'a', dueAt: world.clock.now + 5000 })
  await world.enqueue({ n: 2 }, { orderingKey: 'a' })
  await world.enqueue({ n: 3 }, { orderingKey: 'a', dueAt: world.clock.now + 90_000 })
  expect(await claimed(world)).toEqual([])
  expect((await world.store.list({ limit: 9 })).map(({ state }) => state)).toEqual(['scheduled', 'ready', 'scheduled'])
  expect((await world.store.status()).states).toEqual({ scheduled: 2, ready: 1 })
  world.clock.now += 5000
  const [first] = await claimed(world)
  expect(first?.requestId).toBe(1)
  const [second] = await claimed(world, { results: [answer(first as ClaimedCall, accepted('t'))] })
  expect(second?.requestId).toBe(2)
  const { calls, nextDueAt } = await world.turn({ slots: 9, results: [answer(second as ClaimedCall, accepted('u'))] })
  expect({ calls, nextDueAt }).toEqual({ calls: [], nextDueAt: 1_090_000 })
  await world.close()
})

test('what joins a line long after the last turn is ready, as anywhere else', async () => {
  const world = await open()
  await world.enqueue({ n: 1 }, { orderingKey: 'a', dueAt: 900_000_000 })
  world.clock.now += 500_000
  await world.enqueue({ n: 2 }, { orderingKey: 'a' })
  await world.enqueue({ n: 3 }, { orderingKey: 'a', dueAt: world.clock.now + 1 })
  expect((await world.store.list({ limit: 9 })).map(({ state }) => state)).toEqual(['scheduled', 'ready', 'scheduled'])
  expect((await world.store.list({ state: 'ready', limit: 9 })).map(({ requestId }) => requestId)).toEqual([2])
  expect((await world.store.status()).states).toEqual({ scheduled: 2, ready: 1 })
  await world.close()
})

test('a task that is adopted, a late answer and an orphan that becomes the task each pass the turn on', async () => {
  const world = await open()
  await enqueueKeys(world, ['a', 'a', 'a', 'a'], 'lookup')
  const [first] = await claimed(world)
  const { investigations } = await world.turn({
    slots: 9,
    investigations: 9,
    results: [answer(first as ClaimedCall, unknown())],
  })
  expect(investigations).toEqual([])
  world.clock.now += 60_000
  const { version } = (await world.turn({ investigations: 9 })).investigations[0]?.row ?? { version: 0 }
  const evidence = { phase: 'answered', status: 200 } as const
  const verdict = { kind: 'adopt', taskId: 't1', evidence } as const
  const adoption = { requestId: 1, target: 'lookup', version, policy: LOOKUP, verdict }
  const [second] = await claimed(world, { reconciliations: [adoption] })
  expect(second?.requestId).toBe(2)
  expect(await claimed(world, { results: [answer(second as ClaimedCall, rejected)] })).toEqual([])
  await world.turn({ results: [answer(second as ClaimedCall, accepted('t2'))] })
  const [orphan] = await world.store.orphans(9)
  await world.store.adoptOrphan(orphan?.orphanId ?? 0, word, () => LOOKUP)
  const [third] = await claimed(world)
  expect(third?.requestId).toBe(3)
  await claimed(world, { results: [answer(third as ClaimedCall, notExecuted(), world.clock.now)] })
  const late = await claimed(world, { results: [answer(third as ClaimedCall, accepted('t3'), world.clock.now)] })
  expect(idsOf(late)).toEqual([4])
  await world.close()
})

test('a request that is canceled in line leaves it, and those behind it come up', async () => {
  const world = await open()
  await enqueueKeys(world, ['a', 'a', 'a'])
  const [first] = await claimed(world)
  await world.store.cancel(2, word)
  expect(await world.store.get(3)).toMatchObject({ line: { place: 2, waiting: 1 } })
  expect(idsOf(await claimed(world, { results: [answer(first as ClaimedCall, accepted('t'))] }))).toEqual([3])
  expect(await world.store.get(2)).toMatchObject({ state: 'canceled', orderingKey: 'a', behind: null, line: null })
  await world.close()
})

test('a deduplicated request keeps the key that it has; a free hash takes the new one', async () => {
  const world = await open()
  await world.enqueue({ n: 1 }, { orderingKey: 'a', dedupe: 'live' })
  expect(await world.enqueue({ n: 1 }, { orderingKey: 'b' })).toMatchObject({ kind: 'duplicate', requestId: 1 })
  expect((await world.store.get(1))?.orderingKey).toBe('a')
  const [first] = await claimed(world)
  await world.turn({ results: [answer(first as ClaimedCall, accepted('t'))] })
  expect(await world.enqueue({ n: 1 }, { orderingKey: 'b' })).toMatchObject({ kind: 'inserted' })
  const [again] = await claimed(world)
  expect(await world.store.get(again?.requestId ?? 0)).toMatchObject({ orderingKey: 'b', generation: 2 })
  await world.close()
})

test('a drain waits for those in line as long as the first of them is owed, and for none behind a held one', async () => {
  const world = await open()
  await enqueueKeys(world, ['a', 'a'], 'opaque')
  const drain = () => world.store.drainStatus(['opaque'], world.clock.now + 60_000, Number.MAX_SAFE_INTEGER)
  expect(await drain()).toEqual({ queued: true, inDoubt: false })
  const [first] = await claimed(world)
  expect(await drain()).toEqual({ queued: false, inDoubt: true })
  await world.turn({ results: [answer(first as ClaimedCall, { kind: 'mismatch', evidence: rejected.evidence })] })
  expect(await drain()).toEqual({ queued: false, inDoubt: false })
  const status = await world.store.status()
  expect(status.states).toEqual({ held: 1, ready: 1 })
  expect(status.targets['opaque']?.stuck).toBe(1)
  expect(status.stuckKeys).toMatchObject([
    { target: 'opaque', orderingKey: 'a', followers: 1, since: 1_000_000, head: { requestId: 1, state: 'held' } },
  ])
  await world.close()
})

test('a list shows a key, what is stuck, and each in its state', async () => {
  const world = await open()
  await enqueueKeys(world, ['a', 'a', 'b', 'b', null])
  await world.enqueue({ n: 'late' }, { orderingKey: 'a', dueAt: world.clock.now + 90_000 })
  await world.enqueue({ n: 'elsewhere' }, { orderingKey: 'a', target: 'opaque' })
  const calls = await claimed(world)
  await world.turn({ results: [answer(calls[0] as ClaimedCall, rejected)] })
  const list = async (filter: object) => (await world.store.list({ limit: 9, ...filter })).map((view) => view.requestId)
  expect(await list({ orderingKey: 'a' })).toEqual([1, 2, 6, 7])
  expect(await list({ orderingKey: 'a', target: 'keyed' })).toEqual([1, 2, 6])
  expect(await list({ orderingKey: 'a', state: 'scheduled' })).toEqual([6])
  expect(await list({ orderingKey: 'none' })).toEqual([])
  expect(await list({ stuck: true })).toEqual([2, 6])
  expect(await list({ stuck: true, orderingKey: 'b' })).toEqual([])
  expect(await list({ stuck: true, limit: 1, afterId: 2 })).toEqual([6])
  expect(await list({ state: 'ready' })).toEqual([2, 4])
  expect(await list({ state: 'scheduled' })).toEqual([6])
  await world.close()
})

testOnSqlite('whoever has a sqlite3 shell sees the keys too', async () => {
  const world = await open()
  await enqueueKeys(world, ['a', 'a', null])
  await world.enqueue({ n: 'late' }, { orderingKey: 'a', dueAt: world.clock.now + 90_000 })
  const db = new Database(world.path)
  expect(db.prepare('SELECT request_id, state, ordering_key, behind FROM request_overview').raw().all()).toEqual([
    [1, 'ready', 'a', null],
    [2, 'ready', 'a', 1],
    [3, 'ready', null, null],
    [4, 'scheduled', 'a', 1],
  ])
  db.close()
  await world.close()
})

test.each(['canceled', 'expired'] as const)(
  'where the first of a key and many behind it are %s at once, the next has the turn',
  async (how) => {
    const world = await open()
    const expiresAt = how === 'expired' ? world.clock.now + 1000 : null
    for (let n = 0; n < 12; n++)
      await world.enqueue({ n }, { target: 'goingOn', orderingKey: 'a', expiresAt: n < 9 ? expiresAt : null })
    const seen = Array.from({ length: 9 }, (_, n) => ({ requestId: n + 1, version: 0 }))
    if (how === 'canceled')
      await world.store.sayToEach(
        seen,
        { word: 'cancel' },
        { now: world.clock.now, actor: 'ada', note: null },
        { dryRun: false, policyOf: () => GOING_ON },
      )
    world.clock.now += 2000
    expect(idsOf(await claimed(world))).toEqual([10])
    expect((await world.store.get(11))?.behind).toMatchObject({ requestId: 10 })
    await world.close()
  },
)
