// Deadlines: what was never called, or surely never happened, is not called after its own, whoever looks; doubt is reconciled still.
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Reconciliation } from '../../src/core/reconciliation.ts'
import type { ClaimedCall } from '../../src/store/turn.ts'
import type { OperatorWord } from '../../src/store/views.ts'
import { askStore } from '../support/ask-store.ts'
import { hashRequest } from '../support/hash-request.ts'
import {
  accepted,
  answer,
  blocked,
  KEYED,
  LOOKUP,
  notExecuted,
  OPAQUE,
  openWorld,
  rejected,
  unknown,
  type World,
} from '../support/store.ts'

const SOON = 5000
const policyOf = () => KEYED
const evidence = { phase: 'answered', status: 200 } as const

async function open(): Promise<World> {
  const world = await openWorld()
  onTestFinished(() => world.store.close())
  return world
}

const word = (world: World): OperatorWord => ({ now: world.clock.now, actor: 'ada', note: null, ifVersion: null })

/** What the store keeps of deadlines that are still ahead. */
async function expiriesOf(world: World): Promise<unknown[]> {
  return (await askStore(world.path, 'SELECT request_id FROM expiries')).map((row) => row['request_id'])
}

async function claimOne(world: World, expiresAt = world.clock.now + SOON, target = 'keyed'): Promise<ClaimedCall> {
  await world.enqueue({ n: Math.random() }, { target, expiresAt })
  const [call] = (await world.turn({ slots: 1 })).calls
  if (call === undefined) throw new Error('nothing was claimed')
  return call
}

async function reconcile(world: World, call: ClaimedCall, verdict: Reconciliation['verdict']) {
  const [view] = await world.store.viewsOf([call.requestId])
  const { target, requestId } = call
  const policy = {
    keyed: KEYED,
    lookup: { ...LOOKUP, lookup: LOOKUP.lookup && { ...LOOKUP.lookup, misses: 1 } },
    opaque: OPAQUE,
  }[target as 'keyed']
  return world.turn({ reconciliations: [{ requestId, target, version: view?.version ?? 0, policy, verdict }] })
}

test('a request that was never called ends at its deadline, told and counted, without a claim', async () => {
  const world = await open()
  const expiresAt = world.clock.now + SOON
  const { requestId } = await world.enqueue({ n: 1 }, { expiresAt })
  expect(await world.store.get(requestId)).toMatchObject({ state: 'ready', expiresAt })
  world.clock.now = expiresAt - 1
  expect((await world.turn()).settled).toEqual([])
  world.clock.now = expiresAt
  expect((await world.turn()).settled).toMatchObject([
    { requestId, state: 'dead', outcome: 'expired', reason: 'expired' },
  ])
  expect(await world.store.get(requestId)).toMatchObject({
    state: 'dead',
    reason: 'expired',
    expiresAt,
    events: [{ kind: 'dead', reason: 'expired', actor: 'worker:w', detail: { expiresAt } }],
  })
  expect(await world.store.status()).toMatchObject({
    states: { dead: 1 },
    expired: 1,
    targets: { keyed: { expired: 1 } },
  })
  expect(await world.store.list({ reason: 'expired', limit: 9 })).toMatchObject([{ requestId }])
  expect((await world.turn({ slots: 1 })).calls).toEqual([])
  expect(await expiriesOf(world)).toEqual([])
})

test('also one that waits, one of a paused target, and one of a target that nobody serves', async () => {
  const world = await open()
  const expiresAt = world.clock.now + SOON
  await world.enqueue({ n: 1 }, { expiresAt, dueAt: world.clock.now + 1000 })
  await world.enqueue({ n: 2 }, { expiresAt, target: 'opaque' })
  await world.enqueue({ n: 3 }, { expiresAt, target: 'gone' })
  await world.store.pause('opaque', null, 'ada', world.clock.now)
  world.clock.now = expiresAt
  expect((await world.turn()).settled.map(({ requestId, state }) => [requestId, state])).toEqual([
    [1, 'dead'],
    [2, 'dead'],
    [3, 'dead'],
  ])
})

test('a turn ends a bounded number of them, and the claim refuses those that it has not come to', async () => {
  const world = await open()
  const expiresAt = world.clock.now + SOON
  const requests = Array.from({ length: 130 }, (_, n) => {
    const plain = {
      target: 'keyed',
      priority: 0,
      dueAt: null,
      orderingKey: null,
      group: null,
      dedupe: 'always',
      expiresAt,
    } as const
    return { ...plain, payload: `${n}`, ...hashRequest({ target: 'keyed', payload: n }) }
  })
  await world.store.enqueue(requests, world.clock.now)
  await world.enqueue({ n: 'on time' })
  world.clock.now = expiresAt
  const first = await world.turn({ slots: 10 })
  expect(first.more).toBe(true)
  const calls = [...first.calls]
  const over = first.settled.filter(({ reason }) => reason === 'expired')
  // A hundred by the sweep, others by the claim on its way to what is still wanted.
  expect(over.length).toBeGreaterThanOrEqual(100)
  for (let turns = 1; over.length < 130 || calls.length < 1; turns++) {
    expect(turns).toBeLessThan(5)
    const next = await world.turn({ slots: 10 })
    calls.push(...next.calls)
    over.push(...next.settled)
  }
  expect(calls.map(({ requestId }) => requestId)).toEqual([131])
  expect(over.map(({ reason }) => reason)).toEqual(Array(130).fill('expired'))
  expect(await world.store.status()).toMatchObject({ states: { dead: 130, invoking: 1 } })
})

test('an idle worker knows when the next deadline is, and hears of those that others set', async () => {
  const world = await open()
  const expiresAt = world.clock.now + SOON
  const other = await openWorld({ path: world.path })
  const heard = other.store.watchChanges(['opaque'])
  await world.enqueue({ n: 1 }, { expiresAt })
  expect((await world.turn()).nextDueAt).toBe(expiresAt)
  await vi.waitFor(async () => expect(await heard(world.clock.now)).toEqual({ work: false, nextDueAt: expiresAt }))
  await world.enqueue({ n: 2 })
  await vi.waitFor(async () => expect(await heard(expiresAt)).toMatchObject({ work: true }))
  await other.store.close()
})

test('a call that begins something leaves before the deadline or not at all', async () => {
  const world = await open()
  expect(await claimOne(world)).toMatchObject({ writeWithinMs: SOON })
  expect(await expiriesOf(world)).toEqual([])
})

test('an attempt that surely had no effect counts for nothing: between two it ends at its deadline', async () => {
  const world = await open()
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, notExecuted())] })
  expect(await world.store.get(call.requestId)).toMatchObject({ state: 'scheduled' })
  expect(await expiriesOf(world)).toEqual([call.requestId])
  world.clock.now += SOON
  await world.turn({ slots: 1 })
  expect(await world.store.get(call.requestId)).toMatchObject({ state: 'dead', reason: 'expired', attempt: 1 })
})

test.each([
  ['no effect', notExecuted(), 'expired', false],
  ['a refusal of the credentials, which still pauses the target', blocked, 'expired', true],
  ['a refusal for good', rejected, 'rejected', false],
])('and an answer after it ends it at once: %s', async (_what, outcome, reason, paused) => {
  const world = await open()
  const call = await claimOne(world)
  world.clock.now += SOON
  await world.turn({ results: [answer(call, outcome)] })
  expect(await world.store.get(call.requestId)).toMatchObject({ state: 'dead', reason })
  expect((await world.store.status()).targets['keyed']).toMatchObject({ paused })
})

test('an acceptance after the deadline is one: the call was made in time', async () => {
  const world = await open()
  const call = await claimOne(world)
  world.clock.now += SOON
  await world.turn({ results: [answer(call, accepted('t'))] })
  expect(await world.store.get(call.requestId)).toMatchObject({ state: 'submitted', taskId: 't' })
})

test('doubt does not expire: it is replayed as ever, since that may be all that settles it', async () => {
  const world = await open()
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, unknown())] })
  world.clock.now += SOON
  await world.turn()
  expect(await world.store.get(call.requestId)).toMatchObject({ state: 'unknown' })
  const { calls } = await reconcile(world, call, { kind: 'replay', reason: 'unknown' })
  expect(calls).toMatchObject([{ requestId: call.requestId, attempt: 2 }])
})

test.each([
  ['after the deadline it is not called anew, but dead', SOON, [], { state: 'dead', reason: 'expired' }],
  ['before it, it is, and leaves in time', SOON - 400, [{ writeWithinMs: 400 }], { state: 'invoking' }],
])('where settled misses prove that it never happened: %s', async (_what, laterMs, calls, row) => {
  const world = await open()
  const call = await claimOne(world, undefined, 'lookup')
  await world.turn({ results: [answer(call, unknown())] })
  world.clock.now += laterMs
  const turn = await reconcile(world, call, { kind: 'recall', reason: 'settled_miss', evidence })
  expect(turn.calls).toMatchObject(calls)
  expect(await world.store.get(call.requestId)).toMatchObject(row)
})

test('retry of an expired request needs a new deadline, or the word that it has none', async () => {
  const world = await open()
  const { requestId } = await world.enqueue({ n: 1 }, { expiresAt: world.clock.now + SOON })
  world.clock.now += SOON
  await world.turn()
  const retry = (given: { expiresAt?: number | null } = {}) =>
    world.store.retry(requestId, word(world), { ...given, policyOf })
  expect(await retry()).toMatchObject({ kind: 'refused', why: expect.stringContaining('--expires-at') })
  expect(await retry({ expiresAt: world.clock.now })).toMatchObject({ kind: 'refused' })
  const expiresAt = world.clock.now + SOON
  expect(await retry({ expiresAt })).toMatchObject({ kind: 'applied', view: { state: 'ready', expiresAt } })
  world.clock.now = expiresAt
  await world.turn({ slots: 1 })
  expect(await world.store.get(requestId)).toMatchObject({ state: 'dead', reason: 'expired' })
  expect(await retry({ expiresAt: null })).toMatchObject({ kind: 'applied', view: { expiresAt: null } })
  expect((await world.turn({ slots: 1 })).calls).toMatchObject([{ requestId, writeWithinMs: null }])
})

test('retry of another dead request keeps a deadline that is ahead', async () => {
  const world = await open()
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, rejected)] })
  const told = await world.store.retry(call.requestId, word(world), { policyOf })
  expect(told).toMatchObject({ kind: 'applied', view: { expiresAt: world.clock.now + SOON } })
  expect(await expiriesOf(world)).toEqual([call.requestId])
})

test('the word that it did not happen ends a request whose deadline is over, and is idempotent', async () => {
  const world = await open()
  const call = await claimOne(world, undefined, 'opaque')
  await world.turn({ results: [answer(call, unknown())] })
  world.clock.now += SOON
  const say = () =>
    world.store.resolve(call.requestId, { kind: 'not_executed' }, word(world), { force: true, policyOf: () => OPAQUE })
  expect(await say()).toMatchObject({ kind: 'applied', view: { state: 'dead', reason: 'expired' } })
  expect(await say()).toMatchObject({ kind: 'unchanged' })
  expect((await world.turn({ slots: 1 })).calls).toEqual([])
})

test('the word that accepts a duplicate needs a new deadline where the old one is over', async () => {
  const world = await open()
  const call = await claimOne(world, undefined, 'opaque')
  await world.turn({ results: [answer(call, unknown())] })
  world.clock.now += SOON
  const say = (given: { expiresAt?: number | null }) =>
    world.store.resolve(call.requestId, { kind: 'retry_accepting_duplicates', ...given }, word(world), {
      force: true,
      policyOf: () => OPAQUE,
    })
  expect(await say({})).toMatchObject({ kind: 'refused', view: { state: 'unknown' } })
  expect(await say({ expiresAt: null })).toMatchObject({ kind: 'applied', view: { state: 'ready', expiresAt: null } })
})

test('a new request whose deadline is over before it is due is refused; one that is there is still found', async () => {
  const world = await open()
  const enqueue = (payload: unknown, expiresAt: number, dueAt: number | null = null) =>
    world.enqueue(payload, { expiresAt, dueAt })
  const at = world.clock.now
  expect(await enqueue(1, at)).toEqual({ kind: 'expired', expiresAt: at, dueAt: at })
  expect(await enqueue(1, at + 5, at + 5)).toEqual({ kind: 'expired', expiresAt: at + 5, dueAt: at + 5 })
  expect(await world.store.list({ limit: 9 })).toEqual([])
  const made = await enqueue(1, at + 5)
  expect(made).toMatchObject({ kind: 'inserted' })
  world.clock.now += 5
  expect(await enqueue(1, at + 5)).toMatchObject({ kind: 'duplicate', requestId: made.requestId, state: 'ready' })
})

test('what leaves the queue otherwise leaves no deadline behind', async () => {
  const world = await open()
  const { requestId } = await world.enqueue({ n: 1 }, { expiresAt: world.clock.now + SOON })
  await world.store.cancel(requestId, word(world))
  const call = await claimOne(world)
  await world.turn({ results: [answer(call, accepted('t'))] })
  expect(await expiriesOf(world)).toEqual([])
})
