// Limits, breakers, deadlines and order where they meet each other, other configs, and clocks that are set.
import { expect, onTestFinished, test } from 'vitest'
import { type BreakerPolicy, noteEnds } from '../../src/core/breaker.ts'
import type { Outcome } from '../../src/core/outcome.ts'
import type { TargetPolicy } from '../../src/core/policy.ts'
import type { ClaimedCall, TurnResult } from '../../src/store/turn.ts'
import { accepted, answer, KEYED, notExecuted, openWorld, unknown, type World } from '../support/store.ts'

const DAY = 86_400_000
const BREAKER: BreakerPolicy = { failures: 3, rate: null, probeMs: 1000, maxProbeMs: 4000 }
const BROKEN: TargetPolicy = { ...KEYED, breaker: BREAKER }
const SHARED: TargetPolicy = { ...KEYED, limits: { concurrency: null, rate: null, bucket: 'account' } }
const refused: Outcome = {
  kind: 'not_executed',
  refund: true,
  written: false,
  retryAfterMs: null,
  evidence: { phase: 'not_sent', error: 'ETIMEDOUT', rule: 'transport' },
}
const toldToWait = (ms: number): Outcome => ({
  ...refused,
  written: true,
  retryAfterMs: ms,
  limitedBy: `retry-after: ${ms / 1000}`,
  evidence: { phase: 'answered', status: 429 },
})

async function open(
  policies: Record<string, TargetPolicy>,
  options: { count?: number; path?: string; now?: number } = {},
): Promise<World> {
  const { count = 0, now = 1_000_000, path } = options
  const world = await openWorld({ policies, now, ...(path !== undefined && { path }) })
  onTestFinished(() => world.store.close())
  const [target = ''] = Object.keys(policies)
  for (let n = 0; n < count; n++) await world.enqueue({ n }, { target })
  return world
}

const claim = async (world: World, slots = 9): Promise<readonly ClaimedCall[]> => (await world.turn({ slots })).calls
const settle = (world: World, calls: readonly (ClaimedCall | undefined)[], outcome: Outcome): Promise<TurnResult> =>
  world.turn({
    results: calls.flatMap((call) => (call === undefined ? [] : [answer(call, outcome, world.clock.now)])),
  })

/** Proposes to replay one request in doubt. */
async function replay(world: World, requestId: number, { slots = 0, policy = KEYED } = {}) {
  const { investigations } = await world.turn({ investigations: 9 })
  const row = investigations.find((one) => one.row.requestId === requestId)?.row
  if (row === undefined) throw new Error(`request ${requestId} is not to be looked into`)
  const verdict = { kind: 'replay', reason: 'unknown' } as const
  return world.turn({
    slots,
    reconciliations: [{ requestId, target: row.target, version: row.version, policy, verdict }],
  })
}

test('a permit that comes back late is worth no more than what a full bucket would have kept', async () => {
  const rate = { count: 1, perMs: 1000, burst: 1 }
  const world = await open({ t: { ...KEYED, breaker: null, limits: { concurrency: null, rate } } }, { count: 30 })
  const dials: ClaimedCall[] = []
  for (let second = 0; second < 5; second++, world.clock.now += 1000) dials.push(...(await claim(world)))
  let begun = 0
  for (const dial of dials) {
    begun += (await claim(world)).length
    await settle(world, [dial], refused)
    begun += (await claim(world)).length
    world.clock.now += 1000
  }
  expect(begun).toBe(5)
})

test('a turn whose slots its replays have taken looks for what is ready once one is free', async () => {
  const world = await open({ hangs: KEYED, fast: KEYED }, { count: 1 })
  await settle(world, await claim(world, 1), unknown())
  world.clock.now += 500
  await world.enqueue({ n: 2 }, { target: 'fast' })
  expect(await replay(world, 1, { slots: 1 })).toMatchObject({ calls: [{ requestId: 1 }], moreReady: true })
})

test('a breaker that nobody wants any more is none', async () => {
  const world = await open({ t: BROKEN }, { count: 20 })
  await settle(world, await claim(world, 3), refused)
  const later = await open({ t: { ...KEYED, breaker: null } }, { path: world.path, now: 1_000_100 })
  expect(await claim(later, 5)).toHaveLength(5)
  expect((await later.store.status()).targets['t']?.breaker).not.toBeNull()
  const [one] = await claim(later, 1)
  await settle(later, [one], accepted('T'))
  expect((await later.store.status()).targets['t']?.breaker).toBeNull()
})

const SLOWED: readonly [string, TargetPolicy, (world: World) => Promise<unknown>][] = [
  [
    'a bucket',
    { ...KEYED, limits: { concurrency: null, rate: { count: 10, perMs: 1000, burst: 1 } } },
    (world) => claim(world, 1),
  ],
  ['a told wait', KEYED, async (world) => settle(world, await claim(world, 1), toldToWait(1000))],
  [
    'a breaker that has closed',
    BROKEN,
    async (world) => {
      await settle(world, await claim(world, 3), refused)
      world.clock.now += 1000
      await settle(world, await claim(world, 1), accepted('T'))
    },
  ],
]

test.each(SLOWED)(
  '%s does not stand still for as long as a clock was ahead that is set right',
  async (_, policy, act) => {
    const world = await open({ t: policy }, { count: 9 })
    world.clock.now += DAY
    await act(world)
    world.clock.now -= DAY - 60_000
    const called = (await claim(world, 1)).length
    world.clock.now += 60_000
    expect(called + (await claim(world, 1)).length).toBeGreaterThan(0)
  },
)

test('whoever ends the wait of a bucket wakes the doubt of all that share it', async () => {
  const world = await open({ a: SHARED, b: SHARED }, { count: 1 })
  const members = ['a', 'b'].map((name) => ({ name, version: 'v1', description: '{}', bucket: 'account' }))
  await world.store.saveDescriptions(members, world.clock.now)
  await world.enqueue({ n: 2 }, { target: 'b' })
  const [one, two] = await claim(world, 2)
  await settle(world, [two], unknown())
  await settle(world, [one], toldToWait(20 * DAY))
  world.clock.now += 500
  await replay(world, 2, { policy: SHARED })
  await world.store.resume('a', 'ada', world.clock.now)
  world.clock.now += 60_000
  expect((await world.turn({ investigations: 5 })).investigations).toHaveLength(1)
})

test('a share of failures is one of all calls, and no success opens a breaker', () => {
  const policy = { ...BREAKER, failures: 1000, rate: { share: 0.5, calls: 10, withinMs: 60_000 } }
  const outcomes = [
    ...Array.from({ length: 1000 }, () => accepted('T')),
    ...Array.from({ length: 5 }, () => [unknown(), accepted('T')]).flat(),
  ]
  const ends = outcomes.map((outcome) => ({ requestId: 1, outcome }))
  expect(noteEnds(null, ends, policy, 1_000_000)).toMatchObject({ kind: 'closed', calls: 1010, failures: 5 })
})

test('the late end of an earlier attempt is not the probe’s', async () => {
  const policy = { ...KEYED, breaker: { ...BREAKER, failures: 2 } }
  const world = await open({ t: policy }, { count: 5 })
  const [stalled, ...others] = await claim(world, 3)
  await settle(world, others, unknown())
  world.clock.now += 10_000
  expect((await replay(world, 1, { policy })).calls).toHaveLength(1)
  const late: Outcome = { ...refused, evidence: { phase: 'not_sent', error: 'late', rule: 'lease' } }
  await settle(world, [stalled], late)
  expect(await claim(world)).toEqual([])
})

test('a priority that was changed during the call can be changed back afterwards', async () => {
  const world = await open({ t: KEYED }, { count: 1 })
  const word = { now: 1_000_000, actor: 'ada', note: null, ifVersion: null }
  const calls = await claim(world, 1)
  await world.store.reprioritize(1, 9, word)
  await settle(world, calls, notExecuted())
  expect(await world.store.reprioritize(1, 0, word)).toMatchObject({ kind: 'applied', view: { priority: 0 } })
})

test('one that is due later stands in line as scheduled, for words by state too', async () => {
  const world = await open({ t: KEYED })
  for (const dueAt of [null, 1_500_000]) await world.enqueue({ dueAt }, { target: 't', orderingKey: 'a', dueAt })
  expect((await world.store.get(2))?.state).toBe('scheduled')
  expect(await world.store.queued({ state: 'scheduled' }, 0, 9)).toMatchObject([{ requestId: 2 }])
  expect(await world.store.queued({ state: 'ready' }, 0, 9)).toMatchObject([{ requestId: 1 }])
})
