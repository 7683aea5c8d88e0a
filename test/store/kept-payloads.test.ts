import { expect, onTestFinished, test } from 'vitest'
import type { TargetPolicy } from '../../src/core/policy.ts'
import { purge } from '../../src/maintenance/purge.ts'
import { settle } from '../../src/store/sqlite/settle.ts'
import type { Statements } from '../../src/store/sqlite/statements.ts'
import type { Turn } from '../../src/store/sqlite/turn-context.ts'
import { askStore } from '../support/ask-store.ts'
import { accepted, answer, KEYED, notExecuted, openWorld, rejected, type World } from '../support/store.ts'

const KEEPING: TargetPolicy = { ...KEYED, keepPayloadMs: 1000 }
const CALL = { requestId: 1, target: 'keyed', attempt: 1, nonce: 'n', key: 'k' } as Parameters<typeof answer>[0]

async function openKeeping(policy = KEEPING): Promise<World & { kept(): Promise<unknown[]> }> {
  const world = await openWorld({ policies: { keyed: policy } })
  onTestFinished(() => world.store.close())
  return {
    ...world,
    kept: () =>
      askStore(world.path, 'SELECT request_id, target, settled_at, payload FROM kept_payloads ORDER BY request_id'),
  }
}

async function submit(world: World, payload: unknown): Promise<number> {
  await world.enqueue(payload)
  const [call] = (await world.turn({ slots: 1 })).calls
  if (call === undefined) throw new Error('nothing was claimed')
  await world.turn({ results: [answer(call, accepted('t'))] })
  return call.requestId
}

test('a payload is kept by the settlement, and shown', async () => {
  const world = await openKeeping()
  const id = await submit(world, { n: 1 })
  expect(await world.kept()).toEqual([{ request_id: id, target: 'keyed', settled_at: 1_000_000, payload: '{"n":1}' }])
  expect(await world.store.get(id)).toMatchObject({ state: 'submitted', payload: { n: 1 } })
})

test('also where the settlement goes the long way', async () => {
  const world = await openKeeping()
  await world.enqueue({ n: 2 })
  for (const outcome of [notExecuted(), accepted('t')]) {
    const [call] = (await world.turn({ slots: 1 })).calls
    if (call === undefined) throw new Error('nothing was claimed')
    await world.turn({ results: [answer(call, outcome)] })
    world.clock.now += 10_000
    await world.turn()
  }
  expect(await world.kept()).toMatchObject([{ request_id: 1, payload: '{"n":2}' }])
})

test('a request that is dead keeps its payload itself', async () => {
  const world = await openKeeping()
  await world.enqueue({ n: 3 })
  const [call] = (await world.turn({ slots: 1 })).calls
  if (call === undefined) throw new Error('nothing was claimed')
  await world.turn({ results: [answer(call, rejected)] })
  expect(await world.kept()).toEqual([])
  expect(await world.store.get(1)).toMatchObject({ state: 'dead', payload: { n: 3 } })
})

test('without the option it leaves, and the happy path is two statements as ever', async () => {
  const world = await openKeeping(KEYED)
  const id = await submit(world, { n: 4 })
  expect(await world.kept()).toEqual([])
  expect(await world.store.get(id)).toMatchObject({ state: 'submitted', payload: null })
  expect(statementsOf(KEYED)).toEqual(['submitIfInvoking', 'deleteIfPlain'])
  expect(statementsOf(KEEPING)).toEqual(['submitIfInvoking', 'keepPayload', 'deleteIfPlain'])
})

/** What the settlement of a first, accepted attempt asks of the store. */
function statementsOf(policy: TargetPolicy): string[] {
  const asked: string[] = []
  const statement = (name: string) => ({
    run: () => {
      asked.push(name)
      return { changes: 1 }
    },
    get: () => void asked.push(name),
  })
  const sql = new Proxy({}, { get: (_, name) => statement(String(name)) }) as Statements
  const turn = { sql, word: { now: 1, actor: 'test' }, input: { policyOf: () => policy } } as unknown as Turn
  settle(turn, answer(CALL, accepted('t')), null)
  return asked
}

test('any purge drops it when its time is over, and its request stays', async () => {
  const world = await openKeeping()
  const id = await submit(world, { n: 5 })
  const purgeAt = (now: number, dryRun = false) => {
    const given = { store: world.store, now, actor: 'test', keepPayloadMs: { keyed: 1000 } }
    return purge(given, { olderThanMs: 86_400_000, dryRun })
  }
  expect(await purgeAt(1_000_999)).toMatchObject({ payloads: 0 })
  expect(await purgeAt(1_001_000, true)).toMatchObject({ payloads: 1 })
  expect(await purgeAt(1_001_000)).toMatchObject({ purged: 0, payloads: 1 })
  expect(await world.kept()).toEqual([])
  expect(await world.store.get(id)).toMatchObject({ state: 'submitted', payload: null })
})

test('payloads of targets that were not asked for stay', async () => {
  const world = await openKeeping()
  await submit(world, { n: 7 })
  const given = { store: world.store, now: 9_000_000, actor: 'test', keepPayloadMs: { keyed: 0, another: 0 } }
  expect(await purge(given, { olderThanMs: 86_400_000, targets: ['another'] })).toMatchObject({ payloads: 0 })
  expect(await purge(given, { olderThanMs: 86_400_000, targets: ['keyed'] })).toMatchObject({ payloads: 1 })
})

test('payloads of a target that the config does not name are left to their requests', async () => {
  const world = await openKeeping()
  await submit(world, { n: 6 })
  const given = { store: world.store, now: 9_000_000, actor: 'test', keepPayloadMs: { another: 0 } }
  expect(await purge(given, { olderThanMs: 86_400_000 })).toMatchObject({ payloads: 0 })
  expect(await purge(given, { olderThanMs: 0 })).toMatchObject({ purged: 1, payloads: 0 })
  expect(await world.kept()).toEqual([])
})
