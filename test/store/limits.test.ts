// Limits that targets share and waits that an API told: what the claim transaction charges, whoever claims.
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Outcome } from '../../src/core/outcome.ts'
import type { Buckets, TargetPolicy } from '../../src/core/policy.ts'
import type { ClaimedCall, TurnInput } from '../../src/store/turn.ts'
import { accepted, answer, KEYED, notExecuted, openWorld, unknown, type World } from '../support/store.ts'

const TEN_A_SECOND = { count: 10, perMs: 1000, burst: 2 }

interface Limited extends World {
  claim(slots: number, input?: Partial<TurnInput>): Promise<readonly ClaimedCall[]>
}

/** Two targets that share the bucket `account`. */
async function openShared(
  buckets: Buckets,
  options: {
    path?: string
    now?: number
    limits?: Partial<TargetPolicy['limits']>
    rateLimit?: Partial<TargetPolicy['rateLimit']>
  } = {},
): Promise<Limited> {
  const { path, now, limits = {}, rateLimit = {} } = options
  const policy: TargetPolicy = {
    ...KEYED,
    limits: { concurrency: null, rate: null, bucket: 'account', ...limits },
    rateLimit: { ...KEYED.rateLimit, ...rateLimit },
  }
  const policies = { images: policy, videos: policy }
  const worker = { name: 'w', boot: `b${Math.random()}` }
  const world = await openWorld({
    policies,
    worker,
    ...(path !== undefined && { path }),
    ...(now !== undefined && { now }),
  })
  onTestFinished(() => world.store.close())
  const members = Object.keys(policies).map((name) => ({ name, version: 'v1', description: '{}', bucket: 'account' }))
  await world.store.saveDescriptions(members, world.clock.now)
  const turn: World['turn'] = (input = {}) => {
    const targets = Object.entries(policies).map(([name, policy]) => ({ name, policy }))
    const prepare: TurnInput['claim']['prepare'] = (request) => ({
      kind: 'prepared',
      key: `key-${request.requestId}`,
      call: { method: 'POST', url: 'http://127.0.0.1/', headers: {}, body: request.payload, account: null },
      targetVersion: 'v1',
    })
    return world.turn({ ...input, claim: { targets, buckets, prepare, ...input.claim } })
  }
  return { ...world, turn, claim: async (slots, input = {}) => (await turn({ ...input, slots })).calls }
}

async function fill(world: World, count: number): Promise<void> {
  for (let n = 0; n < count; n++) await world.enqueue({ n }, { target: n % 2 === 0 ? 'images' : 'videos' })
}

function limited(seconds: number): Outcome {
  return {
    kind: 'not_executed',
    refund: true,
    written: true,
    retryAfterMs: seconds * 1000,
    limitedBy: `retry-after: ${seconds}`,
    evidence: { phase: 'answered', status: 429 },
  }
}

const unsent: Outcome = {
  kind: 'not_executed',
  refund: true,
  written: false,
  retryAfterMs: null,
  evidence: { phase: 'not_sent', error: 'ECONNREFUSED' },
}

const settle = (world: World, calls: readonly ClaimedCall[], outcome: Outcome) =>
  world.turn({ results: calls.map((call) => answer(call, outcome, world.clock.now)) })

test('targets that name a bucket share its rate, in every process', async () => {
  const buckets = { account: { concurrency: null, rate: TEN_A_SECOND } }
  const one = await openShared(buckets)
  await fill(one, 10)
  const calls = await one.claim(10)
  expect(calls.map(({ target }) => target)).toEqual(['images', 'videos'])
  const other = await openShared(buckets, { path: one.path })
  const closed = await other.turn({ slots: 10 })
  expect(closed.calls).toEqual([])
  expect(closed.nextDueAt).toBe(one.clock.now + 100)
  other.clock.now += 100
  expect(await other.claim(10)).toHaveLength(1)
})

test('a target is charged to its own limits and to its bucket', async () => {
  const buckets = { account: { concurrency: null, rate: { count: 10, perMs: 1000, burst: 5 } } }
  const own = await openShared(buckets, { limits: { rate: { count: 1, perMs: 1000, burst: 1 } } })
  await fill(own, 10)
  expect(await own.claim(10)).toHaveLength(2)
  const beside = await openShared(buckets, { path: own.path })
  expect(await beside.claim(10)).toHaveLength(3)
})

test('the concurrency of a bucket counts the calls of all its targets, also of those that this worker does not serve', async () => {
  const buckets = { account: { concurrency: 3, rate: null } }
  const one = await openShared(buckets)
  await fill(one, 10)
  const first = await one.claim(2)
  const other = await openShared(buckets, { path: one.path })
  const claimed = await other.claim(10)
  expect([first.length, claimed.length]).toEqual([2, 1])
  await settle(other, claimed, accepted('t'))
  expect(await other.claim(10)).toHaveLength(1)
})

test('replays are charged to the bucket like first calls', async () => {
  const buckets = { account: { concurrency: null, rate: { count: 1, perMs: 1000, burst: 1 } } }
  const world = await openShared(buckets)
  await fill(world, 1)
  const [call] = await world.claim(1)
  await settle(world, [call as ClaimedCall], unknown())
  expect((await replay(world, 1)).reconciled[0]).toMatchObject({ applied: false, reason: 'limited' })
  world.clock.now += 1000
  expect((await replay(world, 1)).calls).toHaveLength(1)
})

async function replay(world: World, requestId: number, policy: TargetPolicy = KEYED) {
  const { version, target } = (await world.store.get(requestId)) ?? { version: 0, target: '' }
  const verdict = { kind: 'replay', reason: 'unknown' } as const
  return world.turn({ reconciliations: [{ requestId, target, version, policy, verdict }] })
}

test('a call that surely never left gives back what its claim was charged, and no more', async () => {
  const buckets = { account: { concurrency: null, rate: TEN_A_SECOND } }
  const world = await openShared(buckets, { limits: { rate: { count: 1, perMs: 60_000, burst: 1 } } })
  await fill(world, 10)
  const calls = await world.claim(10)
  expect(calls).toHaveLength(2)
  expect(await world.claim(10)).toEqual([])
  await settle(world, calls, unsent)
  expect(await world.claim(10)).toHaveLength(2)
  // The same answer again is none, and what was sent and refused is charged.
  await settle(world, calls, unsent)
  expect(await world.claim(10)).toEqual([])
})

test('that an attempt never left gives back no permit of the replay that was claimed since', async () => {
  const world = await openShared({ account: { concurrency: null, rate: { count: 1, perMs: 1000, burst: 1 } } })
  await fill(world, 2)
  const calls = await world.claim(1)
  await settle(world, calls, unknown())
  world.clock.now += 1000
  expect((await replay(world, 1)).calls).toHaveLength(1)
  await settle(world, calls, unsent)
  expect(await world.claim(1)).toEqual([])
})

test('a clock that was set back makes no permit younger than it is', async () => {
  const world = await openShared({ account: { concurrency: null, rate: { count: 1, perMs: 1000, burst: 1 } } })
  await fill(world, 3)
  const calls = await world.claim(1)
  world.clock.now -= 600_000
  const steady: TurnInput['steady'] = { now: () => world.clock.now + 600_000, hear: () => {}, isNews: () => false }
  expect(await world.claim(1, { steady })).toEqual([])
  world.clock.now += 1000
  expect(await world.claim(1, { steady })).toHaveLength(1)
  await world.turn({ results: calls.map((call) => answer(call, unsent, world.clock.now)), steady })
  expect(await world.claim(1, { steady })).toEqual([])
})

test('an attempt that reached the API is charged, whatever it answered', async () => {
  const world = await openShared({ account: { concurrency: null, rate: { count: 1, perMs: 60_000, burst: 1 } } })
  await fill(world, 3)
  for (const outcome of [notExecuted(), unknown(), accepted('t')]) {
    const calls = await world.claim(1)
    expect(calls).toHaveLength(1)
    await settle(world, calls, outcome)
    expect(await world.claim(1)).toEqual([])
    world.clock.now += 60_000
  }
})

test('a request that cannot be rendered takes no permit', async () => {
  const buckets = { account: { concurrency: null, rate: { count: 1, perMs: 60_000, burst: 1 } } }
  const world = await openShared(buckets)
  await fill(world, 2)
  const targets = ['images', 'videos'].map((name) => ({
    name,
    policy: { ...KEYED, limits: { ...KEYED.limits, bucket: 'account' } },
  }))
  const prepare = () => ({ kind: 'dead', reason: 'render_failed', note: 'no' }) as const
  expect((await world.turn({ claim: { slots: 1, targets, buckets, prepare } })).settled).toHaveLength(2)
  await fill(world, 4)
  expect(await world.claim(2)).toHaveLength(1)
})

test('where processes know other sizes of a bucket, both together stay within the larger', async () => {
  const small = { count: 10, perMs: 1000, burst: 1 }
  const large = { count: 40, perMs: 1000, burst: 4 }
  const one = await openShared({ account: { concurrency: null, rate: small } })
  const other = await openShared({ account: { concurrency: null, rate: large } }, { path: one.path })
  await fill(one, 200)
  const at: number[] = []
  for (let ms = 0; ms < 3000; ms += 10) {
    for (const world of [one, other]) {
      world.clock.now = 1_000_000 + ms
      for (const _ of await world.claim(50)) at.push(ms)
    }
  }
  // More than the smaller alone would let through, and never more than the larger in any window.
  expect(at.length).toBeGreaterThan(31)
  expectWithin(at, large)
})

function expectWithin(at: readonly number[], { count, perMs, burst }: { count: number; perMs: number; burst: number }) {
  at.forEach((from, i) => {
    for (let k = i; k < at.length; k++) {
      const windowMs = (at[k] ?? 0) - from
      expect(k - i + 1).toBeLessThanOrEqual(burst + (count * windowMs) / perMs + 1e-6)
    }
  })
}

test('a wait that the API told stops all targets of the bucket in every process, and not a moment earlier is one called', async () => {
  const one = await openShared({ account: { concurrency: 20, rate: null } })
  const other = await openShared({ account: { concurrency: 20, rate: null } }, { path: one.path })
  await fill(one, 40)
  const calls = await one.claim(20)
  await settle(one, calls, limited(900))
  for (const world of [one, other]) {
    const { calls, nextDueAt } = await world.turn({ slots: 40 })
    expect(calls).toEqual([])
    expect(nextDueAt).toBe(1_000_000 + 900_000)
    world.clock.now += 899_999
    expect(await world.claim(40)).toEqual([])
    world.clock.now += 1
  }
  // The ramp is one for both: a tenth of twenty in six seconds, then two tenths, then four, then eight.
  const begun: number[] = []
  for (let step = 0; step < 4; step++) {
    let inStep = 0
    for (let ms = 0; ms < 6000; ms += 100) {
      for (const world of [one, other]) inStep += (await settled(world, await world.claim(40))).length
      for (const world of [one, other]) world.clock.now += 100
    }
    begun.push(inStep)
  }
  expect(begun[0]).toBeLessThanOrEqual(2)
  expect(begun.map((_, i) => begun.slice(0, i + 1).reduce((sum, n) => sum + n, 0))).toEqual([1, 5, 13, 29])
  expect(await settled(other, await other.claim(40))).toHaveLength(11)
  expect((await other.store.status()).targets['images']?.waits).toEqual([])
})

async function settled(world: World, calls: readonly ClaimedCall[]): Promise<readonly ClaimedCall[]> {
  await settle(world, calls, accepted('t'))
  return calls
}

test('the wait of one target, where its scope is the target, leaves the others of the bucket open', async () => {
  const world = await openShared({ account: { concurrency: 9, rate: null } }, { rateLimit: { scope: 'target' } })
  await fill(world, 4)
  const [call] = await world.claim(1)
  await settle(world, [call as ClaimedCall], limited(60))
  expect((await world.claim(9)).map(({ target }) => target)).toEqual(['videos', 'videos'])
  const { targets } = await world.store.status()
  expect(targets['images']?.waits).toEqual([
    {
      scope: 'target',
      name: 'images',
      cause: 'told_to_wait',
      toldBy: 'retry-after: 60',
      since: 1_000_000,
      until: 1_060_000,
      rampUntil: 1_060_000 + 24_000,
      begun: 0,
    },
  ])
  expect(targets['videos']?.waits).toEqual([])
})

test('a longer wait makes a pause longer and a shorter one does not; told again in the ramp, it begins anew', async () => {
  const world = await openShared({ account: { concurrency: null, rate: null } })
  await fill(world, 9)
  const calls = await world.claim(4)
  const waits = async () => (await world.store.status()).targets['images']?.waits[0]
  await settle(world, calls.slice(0, 1), limited(60))
  await settle(world, calls.slice(1, 2), limited(10))
  expect(await waits()).toMatchObject({ until: 1_060_000, toldBy: 'retry-after: 60' })
  world.clock.now += 30_000
  await settle(world, calls.slice(2, 3), limited(60))
  expect(await waits()).toMatchObject({ since: 1_000_000, until: 1_090_000, begun: 0 })
  world.clock.now = 1_090_000
  expect(await world.claim(9)).toHaveLength(1)
  expect(await waits()).toMatchObject({ begun: 1 })
  await settle(world, calls.slice(3, 4), limited(5))
  expect(await waits()).toMatchObject({ since: 1_090_000, until: 1_095_000, begun: 0, toldBy: 'retry-after: 5' })
  const told = (await world.store.eventsAfter(0, 100)).filter(({ kind }) => kind === 'told_to_wait')
  expect(told.map(({ reason, detail }) => [reason, (detail as { until: number }).until])).toEqual([
    ['retry-after: 60', 1_060_000],
    ['retry-after: 5', 1_095_000],
  ])
})

test('a pause ends a little later than told, never earlier: stores of one account must not wake in the same instant', async () => {
  const world = await openShared({ account: { concurrency: null, rate: null } })
  await fill(world, 2)
  const [call] = await world.claim(1)
  await world.turn({ results: [answer(call as ClaimedCall, limited(60), 1_000_000)], random: () => 0.5 })
  expect((await world.store.status()).targets['images']?.waits[0]).toMatchObject({ until: 1_000_000 + 63_000 })
})

test('an answer that comes again does not close what a person has opened since', async () => {
  const world = await openShared({ account: { concurrency: null, rate: null } })
  await fill(world, 3)
  const calls = await world.claim(1)
  await settle(world, calls, limited(60))
  await world.store.resume('images', 'me', world.clock.now)
  await settle(world, calls, limited(60))
  expect(await world.claim(1)).toHaveLength(1)
})

test('an answer that is read late tells of a wait from its own end on', async () => {
  const world = await openShared({ account: { concurrency: null, rate: null } })
  await fill(world, 3)
  const [one, other] = await world.claim(2)
  world.clock.now += 100_000
  await world.turn({ results: [answer(one as ClaimedCall, limited(60), 1_000_000)] })
  expect(await world.claim(1)).toHaveLength(1)
  await world.turn({ results: [answer(other as ClaimedCall, limited(300), 1_000_000)] })
  expect((await world.store.status()).targets['videos']?.waits[0]).toMatchObject({ until: 1_300_000 })
})

test('a replay waits too, keeps no drain waiting beyond its horizon, and a resume wakes it', async () => {
  const world = await openShared({ account: { concurrency: null, rate: null } })
  await fill(world, 3)
  const [doubtful, other] = await world.claim(2)
  await settle(world, [doubtful as ClaimedCall], unknown())
  await settle(world, [other as ClaimedCall], limited(7200))
  expect((await replay(world, 1)).calls).toEqual([])
  expect((await world.store.get(1))?.taskState).toMatchObject({
    reason: 'told_to_wait',
    nextCheckAt: 1_000_000 + 7_200_000,
  })
  const horizon = 1_000_000 + 3_600_000
  const drain = (at: number) => world.store.drainStatus(['images', 'videos'], at, horizon)
  expect(await drain(horizon)).toEqual({ queued: false, inDoubt: false })
  expect(await drain(1_000_000 + 7_200_000)).toEqual({ queued: true, inDoubt: true })
  expect(await world.store.resume('images', 'me', world.clock.now)).toBe(true)
  expect((await world.store.get(1))?.taskState).toMatchObject({ nextCheckAt: 1_000_000 })
  expect((await replay(world, 1)).calls).toHaveLength(1)
})

test('a replay that waits is looked up meanwhile where it can be, and held at its deadline however long the wait', async () => {
  const world = await openShared({ account: { concurrency: null, rate: null } })
  await fill(world, 3)
  const [one, two, other] = await world.claim(3)
  await settle(world, [one, two] as ClaimedCall[], unknown())
  await settle(world, [other as ClaimedCall], limited(7200))
  const lookup = {
    settleMs: 1,
    everyMs: 1,
    misses: 1,
    missMeans: 'hold',
    remembersMs: null,
    dependsOnKey: true,
  } as const
  await replay(world, 1, { ...KEYED, lookup })
  await replay(world, 2, { ...KEYED, deadlineMs: 600_000 })
  expect((await world.store.get(1))?.taskState).toMatchObject({ nextCheckAt: 1_060_000 })
  expect((await world.store.get(2))?.taskState).toMatchObject({ nextCheckAt: 1_600_000 })
  const horizon = 1_000_000 + 3_600_000
  expect(await world.store.drainStatus(['images', 'videos'], horizon, horizon)).toEqual({
    queued: false,
    inDoubt: false,
  })
})

test('another process is told of no work while its targets wait, and of when they go on', async () => {
  const one = await openShared({ account: { concurrency: null, rate: null } })
  const other = await openShared({ account: { concurrency: null, rate: null } }, { path: one.path })
  await fill(one, 4)
  const calls = await one.claim(1)
  const changed = other.store.watchChanges(['images', 'videos'])
  await settle(one, calls, limited(60))
  await one.store.cancel(1, { now: one.clock.now, actor: 'me', note: null, ifVersion: null })
  // Of a server it is heard a moment later.
  await vi.waitFor(async () => expect(await changed(1_000_000)).toMatchObject({ work: false, nextDueAt: 1_060_000 }))
  await fill(one, 1)
  await vi.waitFor(async () => expect(await changed(1_060_000)).toMatchObject({ work: true }))
})

test('a request that is told to wait for longer than its target allows is parked, and says when it goes on', async () => {
  const world = await openShared({ account: { concurrency: null, rate: null } }, { rateLimit: { maxWaitMs: 600_000 } })
  await fill(world, 2)
  const [long, short] = await world.claim(2)
  await settle(world, [long as ClaimedCall], limited(172_800))
  await settle(world, [short as ClaimedCall], limited(600))
  const [parked, ...others] = await world.store.list({ reason: 'parked', limit: 9 })
  expect(others).toEqual([])
  // Also beyond a day not a moment earlier than told.
  expect(parked).toMatchObject({ requestId: 1, state: 'scheduled', attempts: 0, dueAt: 1_000_000 + 172_800_000 })
  const { targets } = await world.store.status()
  expect(targets['images']).toMatchObject({ parked: 1, parkedUntil: 1_000_000 + 172_800_000 })
  expect(targets['videos']).toMatchObject({ parked: 0, parkedUntil: null })
  // The target is not hammered either: it was told as well.
  expect(targets['videos']?.waits[0]).toMatchObject({ until: 1_000_000 + 172_800_000 })
  world.clock.now += 172_800_000
  expect((await world.claim(9)).map(({ requestId }) => requestId)).toEqual([2])
  expect((await world.store.status()).targets['images']).toMatchObject({ parked: 0 })
})

test('a call that never left gives its place in the ramp back', async () => {
  const world = await openShared({ account: { concurrency: 10, rate: null } })
  await fill(world, 9)
  await settle(world, await world.claim(1), limited(60))
  world.clock.now += 60_000
  const calls = await world.claim(9)
  expect(calls).toHaveLength(1)
  expect(await world.claim(9)).toEqual([])
  await settle(world, calls, unsent)
  expect(await world.claim(9)).toHaveLength(1)
})

test.each([
  ['after an answer that was not clear', unknown(), 'replay'],
  ['after an answer that showed that it happened', unknown(true), 'replay'],
  ['after it surely never arrived', unknown(), 'recall'],
] as const)('being limited %s burns neither a replay nor an attempt', async (_, outcome, kind) => {
  const world = await openShared({ account: { concurrency: null, rate: null } })
  await fill(world, 1)
  const [call] = await world.claim(1)
  await settle(world, [call as ClaimedCall], outcome)
  const before = (await world.store.get(1))?.taskState
  const { version = 0 } = (await world.store.get(1)) ?? {}
  const evidence = { phase: 'answered' } as const
  const lookup = {
    settleMs: 0,
    everyMs: 1,
    misses: 0,
    missMeans: 'absent',
    remembersMs: 'forever',
    dependsOnKey: true,
  } as const
  const policy: TargetPolicy = { ...KEYED, lookup }
  const verdict = { kind, reason: 'unknown', evidence }
  const again = await world.turn({ reconciliations: [{ requestId: 1, target: 'images', version, policy, verdict }] })
  expect(again.calls).toHaveLength(1)
  await settle(world, again.calls, limited(60))
  const { attempts, replays } = (await world.store.get(1))?.taskState ?? {}
  expect({ attempts, replays }).toEqual({ attempts: before?.attempts, replays: before?.replays })
})

test('a ramp is as long as the target says, and none where it says nothing of one', async () => {
  for (const [rampMs, begun] of [
    [4000, [1, 2, 6, 14, 20]],
    [0, [20, 20, 20, 20, 20]],
  ] as const) {
    const world = await openShared({ account: { concurrency: 20, rate: null } }, { rateLimit: { rampMs } })
    await fill(world, 21)
    const [call] = await world.claim(1)
    await settle(world, [call as ClaimedCall], limited(60))
    world.clock.now += 60_000
    let count = 0
    const counts: number[] = []
    for (let second = 0; second < 5; second++) {
      count += (await world.claim(20)).length
      counts.push(count)
      world.clock.now += 1000
    }
    expect(counts).toEqual(begun)
  }
})
