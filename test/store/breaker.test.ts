// The breaker of a target, as the claim of any process meets it.
import { expect, onTestFinished, test } from 'vitest'
import type { BreakerPolicy } from '../../src/core/breaker.ts'
import type { Outcome } from '../../src/core/outcome.ts'
import type { ClaimedCall } from '../../src/store/turn.ts'
import { accepted, answer, KEYED, OPAQUE, openWorld, unknown, type World } from '../support/store.ts'

const BREAKER: BreakerPolicy = { failures: 3, rate: null, probeMs: 1000, maxProbeMs: 4000 }
const refused: Outcome = {
  kind: 'not_executed',
  refund: true,
  written: false,
  retryAfterMs: null,
  evidence: { phase: 'not_sent', error: 'ECONNREFUSED', rule: 'transport' },
}
const ONE = { name: 'w', boot: 'b1' }
const OTHER = { name: 'w', boot: 'b2' }

async function open(path?: string, worker = ONE, now = 1_000_000): Promise<World> {
  const policies = { keyed: { ...KEYED, breaker: BREAKER }, calm: OPAQUE, never: { ...KEYED, breaker: null } }
  const world = await openWorld({ policies, worker, now, ...(path !== undefined && { path }) })
  onTestFinished(() => world.store.close())
  return world
}

async function fill(world: World, count: number, target = 'keyed'): Promise<void> {
  for (let n = 0; n < count; n++) await world.enqueue({ n }, { target })
}

const claim = async (world: World, slots = 1) => (await world.turn({ slots })).calls
const settle = (world: World, calls: readonly ClaimedCall[], outcome: Outcome) =>
  world.turn({ results: calls.map((call) => answer(call, outcome, world.clock.now)) })
const breakerOf = async (world: World, target = 'keyed') =>
  (await world.store.status()).targets[target]?.waits.find(({ cause }) => cause === 'breaker')

async function openBreaker(world: World): Promise<void> {
  await settle(world, await claim(world, 3), refused)
}

test('failures in a row stop the target for every process, and nobody else', async () => {
  const world = await open()
  await fill(world, 10)
  await fill(world, 1, 'calm')
  await settle(world, await claim(world, 2), refused)
  expect(await claim(world, 1)).toHaveLength(1)
  const again = await open()
  await fill(again, 10)
  await openBreaker(again)
  const other = await open(again.path, OTHER)
  await fill(other, 1, 'calm')
  expect((await claim(other, 10)).map(({ target }) => target)).toEqual(['calm'])
  other.clock.now += 100
  expect((await other.turn({ slots: 10 })).nextDueAt).toBe(1_001_000)
  expect(await breakerOf(other)).toMatchObject({ until: 1_001_000, toldBy: 'not_executed: ECONNREFUSED' })
})

test('one probe tries, whoever sends it; a success opens the way, slowly at first', async () => {
  const world = await open()
  await fill(world, 100)
  await openBreaker(world)
  const other = await open(world.path, OTHER)
  for (const { clock } of [world, other]) clock.now += 1000
  const [probe, ...more] = await claim(world, 10)
  expect(more).toEqual([])
  expect(await claim(other, 10)).toEqual([])
  await settle(world, [probe as ClaimedCall], accepted('T'))
  expect(await claim(other, 100)).toHaveLength(1)
  for (const { clock } of [world, other]) clock.now += KEYED.rateLimit.rampMs
  expect((await claim(other, 50)).length).toBe(50)
  expect(await breakerOf(other)).toBeUndefined()
})

test('a probe that fails waits for twice as long, up to the bound', async () => {
  const world = await open()
  await fill(world, 10)
  await openBreaker(world)
  const waits: number[] = []
  for (let i = 0; i < 3; i++) {
    const { until } = (await breakerOf(world)) as { until: number }
    world.clock.now = until
    await settle(world, await claim(world, 1), refused)
    waits.push(((await breakerOf(world)) as { until: number }).until - world.clock.now)
  }
  expect(waits).toEqual([2000, 4000, 4000])
})

test('a probe whose worker died is followed by another when its lease is over', async () => {
  const world = await open()
  await fill(world, 10)
  await openBreaker(world)
  world.clock.now += 1000
  expect(await claim(world)).toHaveLength(1)
  world.clock.now += 9999
  expect(await claim(world)).toEqual([])
  world.clock.now += 1
  expect(await claim(world)).toHaveLength(1)
})

test('a replay waits for the breaker too, and may be its probe', async () => {
  const world = await open()
  await fill(world, 10)
  const [first, ...others] = await claim(world, 3)
  await settle(world, others, refused)
  await settle(world, [first as ClaimedCall], unknown())
  world.clock.now += 500
  const [due] = (await world.turn({ investigations: 5 })).investigations
  if (due === undefined) throw new Error('nothing is in doubt')
  const { requestId, target, version } = due.row
  const verdict = { kind: 'replay', reason: 'unknown' } as const
  const reconciliation = { requestId, target, version, policy: { ...KEYED, breaker: BREAKER }, verdict }
  const turned = await world.turn({ reconciliations: [reconciliation] })
  expect(turned.reconciled).toMatchObject([{ state: 'unknown', reason: 'breaker_open' }])
  world.clock.now += 500
  const [again] = (await world.turn({ investigations: 5 })).investigations
  const later = await world.turn({
    slots: 10,
    reconciliations: [{ ...reconciliation, version: again?.row.version ?? 0 }],
  })
  expect(later.calls.map((call) => call.requestId)).toEqual([requestId])
})

test('a person closes it, and it counts anew', async () => {
  const world = await open()
  await fill(world, 10)
  await openBreaker(world)
  expect(await world.store.resume('keyed', 'somebody', world.clock.now)).toBe(true)
  expect(await claim(world, 1)).toHaveLength(1)
})

test('opening and closing are on record', async () => {
  const world = await open()
  await fill(world, 10)
  await openBreaker(world)
  world.clock.now += 1000
  await settle(world, await claim(world), accepted('T'))
  const events = await world.store.eventsAfter(0, 100)
  const told = events.filter(({ kind }) => kind.startsWith('breaker'))
  expect(told).toMatchObject([
    { kind: 'breaker_opened', target: 'keyed', requestId: null, reason: 'not_executed: ECONNREFUSED' },
    { kind: 'breaker_closed', target: 'keyed', requestId: null },
  ])
})

test('a target without a breaker goes on', async () => {
  const world = await open()
  await fill(world, 30, 'never')
  await settle(world, await claim(world, 25), refused)
  expect(await claim(world, 1)).toHaveLength(1)
})

test('an answer that comes again is counted once', async () => {
  const world = await open()
  await fill(world, 5)
  const calls = await claim(world, 2)
  await settle(world, calls, refused)
  await settle(world, calls, refused)
  expect(await claim(world, 1)).toHaveLength(1)
})

test('what drains waits for a probe, and no longer once it failed', async () => {
  const world = await open()
  await fill(world, 10)
  await openBreaker(world)
  const owed = async () => (await world.store.drainStatus(['keyed'], world.clock.now + 3_600_000, 1e15)).queued
  expect(await owed()).toBe(true)
  world.clock.now += 1000
  await settle(world, await claim(world), refused)
  expect(await owed()).toBe(false)
})
