// Groups within a target take turns, whatever else moves what they have ready.
import { expect, onTestFinished, test } from 'vitest'
import { ENDED_STATES } from '../../src/core/task-state.ts'
import type { NewRequest } from '../../src/store/store.ts'
import { askStore } from '../support/engine.ts'
import { hashRequest } from '../support/hash-request.ts'
import { lineFaults } from '../support/line-faults.ts'
import { accepted, answer, KEYED, notExecuted, openWorld, rejected, type World } from '../support/store.ts'

const word = { now: 1_000_000, actor: 'ada', note: null, ifVersion: null }

async function open(targets: readonly string[] = ['keyed', 'opaque']): Promise<World> {
  const policies = Object.fromEntries(targets.map((name) => [name, KEYED]))
  const world = await openWorld({ policies })
  onTestFinished(async () => {
    await world.store.close()
    expect(await rotationFaults(world.path)).toEqual([])
    expect(await lineFaults(world.path)).toEqual([])
  })
  return world
}

/** A group stands in the rotation exactly while it has something ready; those without one may. */
function rotationFaults(path: string): Promise<unknown[]> {
  return askStore(
    path,
    `SELECT 'ready and in no rotation' AS fault, target, group_key FROM ready WHERE group_key <> ''
       AND NOT EXISTS (SELECT 1 FROM group_rotation WHERE group_rotation.target = ready.target
         AND group_rotation.group_key = ready.group_key)
     UNION SELECT 'nothing ready', target, group_key FROM group_rotation
       WHERE NOT EXISTS (SELECT 1 FROM ready WHERE ready.target = group_rotation.target
         AND ready.group_key = group_rotation.group_key)
     UNION SELECT 'queue of another group', ready.target, ready.group_key FROM ready JOIN requests USING (request_id)
       WHERE ready.group_key <> COALESCE(requests.group_key, '')`,
  )
}

let made = 0
async function put(world: World, group: string | null, given: Partial<NewRequest> = {}): Promise<number> {
  return (await world.enqueue({ made: ++made }, { group, ...given })).requestId
}

async function flood(world: World, group: string, count: number, given: Partial<NewRequest> = {}): Promise<void> {
  const requests = Array.from({ length: count }, (): NewRequest => {
    const hashes = hashRequest({ target: given.target ?? 'keyed', payload: { flood: ++made } })
    const plain = { target: 'keyed', dedupe: 'always', orderingKey: null, expiresAt: null, dueAt: null } as const
    return { ...plain, priority: 0, ...hashes, payload: '1', group, ...given }
  })
  await world.store.enqueue(requests, world.clock.now)
}

/** The groups of what is claimed, a turn of `slots` each, in the order of the claims. */
async function order(world: World, slots = 99, turns = 99): Promise<(string | null)[]> {
  const groups: (string | null)[] = []
  for (let turn = 0; turn < turns; turn++) {
    const { calls } = await world.turn({ slots })
    if (calls.length === 0) break
    for (const { requestId } of calls) groups.push((await world.store.get(requestId))?.group ?? null)
  }
  return groups
}

test.each([99, 1, 2, 3])(
  'the flood of one keeps the others waiting for no more than a round, %i slots a turn',
  async (slots) => {
    const world = await open()
    await flood(world, 'acme', 7)
    await flood(world, 'bits', 2)
    await put(world, 'cub')
    expect((await order(world, slots)).join(' ')).toBe('acme bits cub acme bits acme acme acme acme acme')
  },
)

test('also where the flood is urgent; within a group the urgent go first', async () => {
  const world = await open()
  await flood(world, 'acme', 3, { priority: 9 })
  const low = await put(world, 'bits')
  const high = await put(world, 'bits', { priority: 5 })
  const { calls } = await world.turn({ slots: 4 })
  expect(calls.map(({ requestId }) => requestId)).toEqual([1, high, 2, low])
})

test('one that comes late has its first turn after a round, and one that always has a single request its share', async () => {
  const world = await open()
  await flood(world, 'acme', 30)
  expect(await order(world, 1, 5)).toEqual(Array(5).fill('acme'))
  const groups: (string | null)[] = []
  for (let round = 0; round < 6; round++) {
    await put(world, 'bits')
    groups.push(...(await order(world, 2, 1)))
  }
  expect(groups.filter((group) => group === 'bits')).toHaveLength(6)
})

test('requests without a group stand together as one', async () => {
  const world = await open()
  for (let n = 0; n < 4; n++) await put(world, null)
  await flood(world, 'acme', 3)
  expect(await order(world, 2)).toEqual(['acme', null, 'acme', null, 'acme', null, null])
  for (const group of ['acme', null, null]) await put(world, group)
  expect(await order(world)).toEqual(['acme', null, null])
})

test('a group is of its target; a target without groups goes by priority beside one that has them', async () => {
  const world = await open()
  await flood(world, 'acme', 2)
  await flood(world, 'acme', 2, { target: 'opaque' })
  await world.store.pause('keyed', null, 'ada', 1_000_000)
  const high = await put(world, null, { target: 'opaque', priority: 3 })
  expect((await world.turn({ slots: 9 })).calls.map(({ requestId }) => requestId)).toEqual([3, high, 4])
  await world.store.resume('keyed', 'ada', 1_000_000)
  for (const priority of [1, 2]) await put(world, null, { target: 'opaque', priority })
  const { calls } = await world.turn({ slots: 9 })
  const of = (name: string) => calls.filter(({ target }) => target === name).map(({ requestId }) => requestId)
  expect(of('opaque')).toEqual([high + 2, high + 1])
  expect(of('keyed')).toEqual([1, 2])
})

test('more groups than a turn has slots take turns over many turns', async () => {
  const world = await open()
  for (let n = 0; n < 200; n++) await flood(world, `group-${n % 50}`, 1)
  const groups = await order(world, 7)
  expect(groups).toHaveLength(200)
  for (let round = 0; round < 4; round++) expect(new Set(groups.slice(round * 50, round * 50 + 50)).size).toBe(50)
})

test.each([
  ['an answer that backs off', notExecuted()],
  ['a dead one that is retried', rejected],
] as const)('%s comes back to its group', async (_, outcome) => {
  const world = await open()
  const first = await put(world, 'acme')
  await flood(world, 'bits', 3)
  const [call] = (await world.turn({ slots: 1 })).calls
  expect(call?.requestId).toBe(first)
  if (call !== undefined) await world.turn({ results: [answer(call, outcome)] })
  if (outcome === rejected) await world.store.retry(first, word, { policyOf: () => KEYED })
  world.clock.now += 5000
  expect(await order(world, 1)).toEqual(['bits', 'acme', 'bits', 'bits'])
})

test('one that comes due joins the rotation of its group', async () => {
  const world = await open()
  await put(world, 'late', { dueAt: 1_005_000 })
  await flood(world, 'acme', 3)
  expect(await order(world, 1, 1)).toEqual(['acme'])
  world.clock.now = 1_005_000
  expect(await order(world, 1)).toEqual(['acme', 'late', 'acme'])
})

test('what is canceled, expired, dead before its call or moved leaves its group behind only with something ready', async () => {
  const world = await open()
  const canceled = await put(world, 'canceled')
  const moved = await put(world, 'moved')
  await put(world, 'expired', { expiresAt: 1_001_000 })
  await put(world, 'misfit')
  await flood(world, 'acme', 2)
  await world.store.cancel(canceled, word)
  expect(await world.store.reprioritize(moved, 4, word)).toMatchObject({ kind: 'applied', view: { group: 'moved' } })
  world.clock.now = 1_002_000
  const { calls, settled } = await world.turn({
    slots: 9,
    claim: {
      targets: [{ name: 'keyed', policy: KEYED }],
      prepare: ({ requestId }) =>
        requestId === 4
          ? { kind: 'dead', reason: 'payload_misfit', note: 'no' }
          : {
              kind: 'prepared',
              key: null,
              call: { method: 'POST', url: 'http://127.0.0.1/', headers: {}, body: null, account: null },
              targetVersion: 'v1',
            },
    },
  })
  expect(settled.map(({ requestId, reason }) => [requestId, reason])).toEqual([
    [3, 'expired'],
    [4, 'payload_misfit'],
  ])
  expect(calls.map(({ requestId }) => requestId).toSorted()).toEqual([moved, 5, 6])
  expect(await rotationFaults(world.path)).toEqual([])
  const scope = { before: word.now * 2, states: ENDED_STATES, targets: null, abandoned: false }
  await world.store.purgeAfter(0, scope, { ...word, dryRun: false })
})

test('of an ordering key whoever has the turn stands in its own group', async () => {
  const world = await open()
  await put(world, 'acme', { orderingKey: 'k' })
  await put(world, 'bits', { orderingKey: 'k' })
  await flood(world, 'cub', 3)
  const { calls } = await world.turn({ slots: 2 })
  expect(calls.map(({ requestId }) => requestId)).toEqual([1, 3])
  await world.turn({ results: calls.map((call) => answer(call, accepted(`t${call.requestId}`))) })
  expect(await order(world, 1)).toEqual(['cub', 'bits', 'cub'])
})

test('groups age within themselves, and ranks are moved with each in its place', async () => {
  const world = await open()
  for (let n = 0; n < 300; n++) await put(world, n % 3 === 0 ? null : `group-${n % 3}`, { priority: n % 5 })
  await world.store.rank([{ target: 'keyed', agingMs: 60_000 }], world.clock.now, 'worker:w')
  for (let turns = 0; (await world.turn()).more; turns++) expect(turns).toBeLessThan(9)
  const { targets } = await world.store.status()
  expect(targets['keyed']?.oldestReady.map(({ priority }) => priority)).toEqual([4, 3, 2, 1, 0])
  expect((await order(world, 3, 1)).toSorted()).toEqual(['group-1', 'group-2', null])
  const old = await put(world, 'group-1', { priority: 0, dueAt: world.clock.now - 10 * 60_000 })
  const { calls } = await world.turn({ slots: 3 })
  expect(calls.map(({ requestId }) => requestId)).toContain(old)
})

test('the longest wait of each priority is told over all groups', async () => {
  const world = await open()
  for (const [n, group] of ['b', null, 'a'].entries()) await put(world, group, { priority: n % 2, dueAt: 900_000 - n })
  const { targets, oldestReady } = await world.store.status()
  expect(oldestReady).toBe(899_998)
  expect(targets['keyed']?.oldestReady).toEqual([
    { priority: 1, since: 899_999 },
    { priority: 0, since: 899_998 },
  ])
})

test('the status tells how many groups have something ready, and which have most', async () => {
  const world = await open()
  for (const [group, count] of [
    ['a', 1],
    ['b', 5],
    ['c', 2],
    ['d', 3],
  ] as const)
    await flood(world, group, count)
  await put(world, null)
  await put(world, 'later', { dueAt: 9_000_000 })
  await world.turn({ slots: 1 })
  const { targets } = await world.store.status()
  expect(targets['keyed']?.groups).toEqual({
    ready: 3,
    longest: [
      { group: 'b', ready: 5 },
      { group: 'd', ready: 3 },
      { group: 'c', ready: 2 },
    ],
    headsOnly: false,
    oldest: { group: 'b', since: expect.any(Number) },
  })
})

test('the status tells which group waits longest, aging or not, and where its counts are of heads alone', async () => {
  const world = await open()
  await put(world, 'a', { dueAt: 900_002 })
  await put(world, 'b', { dueAt: 900_001, priority: -1, orderingKey: 'k' })
  await put(world, null, { dueAt: 900_003 })
  const oldest = async () => (await world.store.status()).targets['keyed']?.groups
  expect(await oldest()).toMatchObject({ headsOnly: false, oldest: { group: 'b', since: 900_001 } })
  await put(world, 'b', { dueAt: 900_001, orderingKey: 'k' })
  expect(await oldest()).toMatchObject({ headsOnly: true, longest: [{ ready: 1 }, { ready: 1 }] })
  await world.store.rank([{ target: 'keyed', agingMs: 60_000 }], world.clock.now, 'worker:w')
  for (let turns = 0; (await world.turn()).more; turns++) expect(turns).toBeLessThan(9)
  expect(await oldest()).toMatchObject({ oldest: { group: 'b', since: 900_001 } })
  await put(world, null, { dueAt: 900_000 })
  expect(await oldest()).toMatchObject({ oldest: { group: null, since: 900_000 } })
})

test('lists and words for many go by group', async () => {
  const world = await open()
  await put(world, 'acme')
  await put(world, 'bits')
  await put(world, 'acme', { dueAt: 9_000_000 })
  await put(world, null)
  const ids = async (filter: object) =>
    (await world.store.list({ limit: 9, ...filter })).map(({ requestId }) => requestId)
  expect(await ids({ group: 'acme' })).toEqual([1, 3])
  expect(await ids({ group: 'acme', afterId: 1 })).toEqual([3])
  expect(await ids({ group: 'acme', state: 'ready' })).toEqual([1])
  expect(await ids({ group: 'acme', target: 'opaque' })).toEqual([])
  const queued = await world.store.queued({ group: 'acme' }, 0, 9)
  expect(queued.map(({ requestId, state }) => [requestId, state])).toEqual([
    [1, 'ready'],
    [3, 'scheduled'],
  ])
  const [first] = (await world.turn({ slots: 1 })).calls
  if (first !== undefined) await world.turn({ results: [answer(first, rejected)] })
  expect(await ids({ group: 'acme', state: 'dead' })).toEqual([1])
})
