// A person's word for many requests: each by the version that was read, page by page, and nothing at all in a dry run.
import { expect, test } from 'vitest'
import type { TargetPolicy } from '../../src/core/policy.ts'
import { type EachFilter, type SaidRequest, sayToEach } from '../../src/recovery/say-to-each.ts'
import type { Store } from '../../src/store/store.ts'
import type { Resolution, Saying } from '../../src/store/views.ts'
import { contentOf } from '../support/content.ts'
import { hashRequest } from '../support/hash-request.ts'
import { answer, KEYED, LOOKUP, OPAQUE, openWorld, rejected, unknown, type World } from '../support/store.ts'

const policies: Record<string, TargetPolicy> = { keyed: KEYED, opaque: OPAQUE, lookup: LOOKUP }
const policyOf = (target: string) => policies[target]
const NOT_EXECUTED: Resolution = { kind: 'not_executed' }

/** Requests that were sent and never answered; held for `reason`, or left unknown where it is null. */
async function doubt(
  world: World,
  count: number,
  reason: string | null = 'opaque',
  target = 'opaque',
): Promise<number[]> {
  const requests = Array.from({ length: count }, () => {
    const payload = { n: Math.random() }
    const hashes = hashRequest({ target, payload })
    const plain = {
      priority: 0,
      dueAt: null,
      orderingKey: null,
      group: null,
      dedupe: 'always',
      expiresAt: null,
    } as const
    return { target, payload: JSON.stringify(payload), ...hashes, ...plain }
  })
  await world.store.enqueue(requests, world.clock.now)
  const { calls } = await world.turn({ slots: count })
  await world.turn({ results: calls.map((call) => answer(call, unknown())) })
  const ids = calls.map(({ requestId }) => requestId)
  if (reason === null) return ids
  const verdict = { kind: 'hold', reason, evidence: null } as const
  const reconciliations = (await world.store.viewsOf(ids)).map(({ requestId, version }) => {
    return { requestId, target, version, policy: policies[target] as TargetPolicy, verdict }
  })
  await world.turn({ reconciliations })
  return ids
}

async function say(
  world: World,
  filter: EachFilter,
  options: { resolution?: Resolution; saying?: Saying; dryRun?: boolean; store?: Store; ifVersion?: number } = {},
) {
  const said: SaidRequest[] = []
  const { resolution = NOT_EXECUTED, dryRun = false, store = world.store, ifVersion = null } = options
  const report = await sayToEach(store, filter, {
    saying: options.saying ?? { word: 'resolve', resolution, force: true },
    word: { now: world.clock.now, actor: 'cli:ann', note: 'they lost the batch' },
    ifVersion,
    dryRun,
    policyOf,
    onEach: (one) => said.push(one),
  })
  return { report, said }
}

test('2,000 held rows are told page by page, each with its event; the second time there are none', async () => {
  const world = await openWorld()
  const ids = await doubt(world, 2000)
  const { report, said } = await say(world, { target: 'opaque', reason: 'opaque' })
  expect(report).toEqual({
    applied: 2000,
    unchanged: 0,
    refused: { refused: 0, versionChanged: 0, notFound: 0 },
    dryRun: false,
  })
  expect(said.map(({ requestId }) => requestId)).toEqual(ids)
  expect((await world.store.status()).states).toEqual({ ready: 2000 })
  const { events = [] } = (await world.store.get(ids[1999] as number)) ?? {}
  expect(events.at(-1)).toMatchObject({
    kind: 'resolved',
    actor: 'cli:ann',
    reason: 'not_executed',
    detail: { note: 'they lost the batch' },
  })
  expect((await say(world, { target: 'opaque', reason: 'opaque' })).report.applied).toBe(0)
  expect((await say(world, { ids })).report).toMatchObject({ applied: 0, unchanged: 2000 })
  await world.store.close()
})

test('a row that changes after it was read is refused and reported, and the others go on', async () => {
  const world = await openWorld()
  const ids = await doubt(world, 150)
  const [first = 0] = ids
  const last = ids.at(-1) as number
  let pages = 0
  const store: Store = {
    ...world.store,
    sayToEach: async (...words) => {
      pages++
      // Somebody else speaks of one of this page, and of one of the next.
      const word = { now: world.clock.now, actor: 'cli:bob', note: null, ifVersion: null }
      const options = { force: true, policyOf }
      const happened: Resolution = { kind: 'task_id', taskId: 'T' }
      if (pages === 1) for (const id of [first, last]) await world.store.resolve(id, happened, word, options)
      return world.store.sayToEach(...words)
    },
  }
  const { report, said } = await say(world, { target: 'opaque' }, { store })
  expect(report).toMatchObject({ applied: 148, refused: { refused: 0, versionChanged: 2, notFound: 0 } })
  expect(said.filter(({ result }) => result === 'version_changed')).toMatchObject([
    { requestId: first, from: 'held', state: 'submitted', taskId: 'T' },
    { requestId: last, from: 'held', state: 'submitted' },
  ])
  expect(pages).toBe(2)
  await world.store.close()
})

test('a row that is held only after the filter was read is not told', async () => {
  const world = await openWorld()
  await doubt(world, 2)
  let late: number[] = []
  const store: Store = {
    ...world.store,
    sayToEach: async (...words) => {
      late = await doubt(world, 1)
      return world.store.sayToEach(...words)
    },
  }
  expect((await say(world, { reason: 'opaque' }, { store })).report).toMatchObject({ applied: 2 })
  expect(await world.store.get(late[0] as number)).toMatchObject({ state: 'held' })
  await world.store.close()
})

test('a dry run says exactly what the word then does, and changes nothing in the file', async () => {
  const world = await openWorld()
  const ids = await doubt(world, 3)
  await doubt(world, 1, 'deadline', 'keyed')
  const before = await contentOf(world.path)
  for (const kind of ['not_executed', 'retry_accepting_duplicates', 'abandon'] as const)
    await say(world, { state: 'held' }, { resolution: { kind }, dryRun: true })
  const foreseen = await say(world, { target: 'opaque' }, { dryRun: true })
  expect(await contentOf(world.path)).toBe(before)
  expect(foreseen.report).toMatchObject({ applied: 3, dryRun: true })
  const done = await say(world, { target: 'opaque' })
  const told = ({ said }: typeof done) =>
    said.map(({ requestId, from, state, result }) => ({ requestId, from, state, result }))
  expect(told(foreseen)).toEqual(told(done))
  expect(told(done)).toMatchObject(ids.map((requestId) => ({ requestId, from: 'held', state: 'ready' })))
  await world.store.close()
})

test('the filter takes held rows, or unknown ones where asked; target and reason both count', async () => {
  const world = await openWorld()
  const [opaque] = await doubt(world, 1)
  const [deadline] = await doubt(world, 1, 'deadline', 'keyed')
  const [open] = await doubt(world, 1, null, 'keyed')
  const idsOf = async (filter: EachFilter) =>
    (await say(world, filter, { dryRun: true })).said.map(({ requestId }) => requestId)
  expect(await idsOf({ state: 'held' })).toEqual([opaque, deadline])
  expect(await idsOf({ target: 'keyed' })).toEqual([deadline])
  expect(await idsOf({ reason: 'deadline' })).toEqual([deadline])
  expect(await idsOf({ target: 'opaque', reason: 'deadline' })).toEqual([])
  expect(await idsOf({ target: 'keyed', state: 'unknown' })).toEqual([open])
  await expect(say(world, {})).rejects.toMatchObject({ code: 'USAGE' })
  await world.store.close()
})

test('of named ids those that do not fit, or are not there, are refused and reported', async () => {
  const world = await openWorld()
  const [opaque = 0] = await doubt(world, 1)
  const [keyed = 0] = await doubt(world, 1, 'deadline', 'keyed')
  const { said, report } = await say(world, { ids: [opaque, keyed, 999, opaque], target: 'opaque' })
  expect(report).toMatchObject({ applied: 1, refused: { refused: 1, versionChanged: 0, notFound: 1 } })
  expect(said).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ requestId: opaque, state: 'ready', result: 'applied' }),
      expect.objectContaining({ requestId: keyed, result: 'refused', why: 'its target is keyed' }),
      expect.objectContaining({ requestId: 999, result: 'not_found' }),
    ]),
  )
  const stale = await say(world, { ids: [keyed] }, { ifVersion: 1 })
  expect(stale.report.refused.versionChanged).toBe(1)
  await world.store.close()
})

test('dead rows are taken back by target and reason', async () => {
  const world = await openWorld()
  for (const n of [1, 2]) await world.enqueue({ n })
  const { calls } = await world.turn({ slots: 2 })
  await world.turn({ results: calls.map((call) => answer(call, rejected)) })
  const saying = { word: 'retry' } as const
  expect((await say(world, { reason: 'attempts_spent' }, { saying })).report.applied).toBe(0)
  expect((await say(world, { target: 'keyed', reason: 'rejected' }, { saying })).report.applied).toBe(2)
  expect((await world.store.status()).states).toEqual({ ready: 2 })
  await world.store.close()
})

test('a list shows no reason of an earlier call while the request is called again, and none of its evidence after a word', async () => {
  const world = await openWorld()
  const [id = 0] = await doubt(world, 1)
  expect(await world.store.list({ reason: 'opaque', limit: 5 })).toMatchObject([
    { requestId: id, reason: 'opaque', lastError: 'opaque: ECONNRESET', inDoubtSince: world.clock.now },
  ])
  await say(world, { ids: [id] })
  expect(await world.store.get(id)).toMatchObject({ lastError: 'resolved_not_executed', inDoubtSince: null })
  await world.turn({ slots: 1 })
  expect(await world.store.list({ limit: 5 })).toMatchObject([{ state: 'invoking', reason: null, lastError: null }])
  expect(await world.store.list({ reason: 'resolved_not_executed', limit: 5 })).toEqual([])
  await world.store.close()
})

test('the words that fit are those that the store would take', async () => {
  const world = await openWorld()
  await world.enqueue({ n: 1 }, { target: 'opaque' })
  const { calls } = await world.turn({ slots: 1 })
  await world.turn({ results: calls.map((call) => answer(call, unknown(true))) })
  const [cut = 0] = calls.map(({ requestId }) => requestId)
  const [plain = 0] = await doubt(world, 1)
  const [taken = 0] = await doubt(world, 1, 'mismatch', 'keyed')
  const every = ['task_id', 'not_executed', 'retry_accepting_duplicates', 'abandon']
  const fitting = async (id: number) => (await world.store.get(id))?.resolutions
  expect(await fitting(plain)).toEqual(every)
  expect(await fitting(cut)).toEqual(every.filter((kind) => kind !== 'not_executed'))
  expect(await fitting(taken)).toEqual(every.filter((kind) => kind !== 'not_executed'))
  expect((await say(world, { ids: [cut, plain] }, { dryRun: true })).said).toMatchObject([
    { requestId: cut, result: 'refused' },
    { requestId: plain, result: 'applied' },
  ])
  await world.store.close()
})

test('a cancel takes what is queued and fits, and what is in doubt or dead only where its state is asked for', async () => {
  const world = await openWorld()
  const [held = 0] = await doubt(world, 1)
  const [open = 0] = await doubt(world, 1, null)
  for (const n of [1, 2]) await world.enqueue({ n }, { group: 'leaver', orderingKey: 'k' })
  await world.enqueue({ n: 3 }, { group: 'leaver', dueAt: world.clock.now + 1000 })
  await world.enqueue({ n: 4 }, { group: 'stays' })
  const saying = { word: 'cancel' } as const
  const foreseen = await say(world, { group: 'leaver' }, { saying, dryRun: true })
  expect(foreseen.said.map(({ from, state }) => `${from} ${state}`)).toEqual([
    'ready canceled',
    'ready canceled',
    'scheduled canceled',
  ])
  // Whoever has the turn in its ordering key hands it on to one that is canceled too.
  expect((await say(world, { group: 'leaver' }, { saying })).report).toMatchObject({ applied: 3 })
  expect((await say(world, { group: 'leaver' }, { saying })).report).toMatchObject({ applied: 0 })
  expect((await world.store.status()).states).toEqual({ ready: 1, canceled: 3, held: 1, unknown: 1 })
  expect((await say(world, { target: 'opaque' }, { saying })).said).toEqual([])
  for (const [state, id] of [
    ['unknown', open],
    ['held', held],
  ] as const) {
    const { said } = await say(world, { target: 'opaque', state }, { saying })
    expect(said).toMatchObject([{ requestId: id, from: state, state: 'unknown', result: 'applied' }])
  }
  const { calls } = await world.turn({ slots: 1 })
  await world.turn({ results: calls.map((call) => answer(call, rejected)) })
  expect((await say(world, { state: 'dead' }, { saying })).report).toMatchObject({ applied: 1 })
  await expect(say(world, { state: 'submitted' }, { saying })).rejects.toMatchObject({ code: 'USAGE' })
  await world.store.close()
})
