// What the time line tells, and what it costs: nothing on the plain happy path, and a bounded number of rows in the longest doubt.
import { expect, test } from 'vitest'
import { accepted, answer, LOOKUP, notExecuted, openWorld, unknown, type World } from '../support/store.ts'

const evidence = { phase: 'answered', status: 500 } as const

async function callOne(world: World) {
  const [call] = (await world.turn({ slots: 1 })).calls
  if (call === undefined) throw new Error('nothing was called')
  return call
}

const FINGERPRINT = expect.stringMatching(/^[0-9a-f]{64}$/)

test('the plain happy path writes no event, and still has its story', async () => {
  const world = await openWorld()
  const { requestId } = await world.enqueue({ n: 1 })
  world.clock.now += 1000
  const call = await callOne(world)
  await world.turn({ results: [answer(call, accepted('T'), world.clock.now + 500)] })
  const { events, timeLine } = (await world.store.get(requestId)) ?? {}
  expect(events).toEqual([])
  expect(timeLine).toMatchObject([
    { kind: 'enqueued', to: 'ready', at: 1_000_000 },
    { kind: 'called', from: 'ready', to: 'invoking', at: 1_001_000, attempt: 1, key: call.key },
    { kind: 'submitted', to: 'submitted', at: 1_001_500, said: 'the API answered, task T', evidence: { status: 200 } },
  ])
  await world.store.close()
})

test('hundreds of lookups that bring nothing new are a count and the last, also when they waver', async () => {
  const world = await openWorld()
  const { requestId } = await world.enqueue({ n: 1 }, { target: 'lookup' })
  const call = await callOne(world)
  await world.turn({ results: [answer(call, unknown())] })
  const ask = async (reason: string) => {
    world.clock.now += 60_000
    const { version = 0 } = (await world.store.get(requestId)) ?? {}
    const verdict = { kind: 'later', at: world.clock.now + 60_000, reason, missCounted: false, evidence } as const
    await world.turn({ reconciliations: [{ requestId, target: 'lookup', version, policy: LOOKUP, verdict }] })
  }
  for (let round = 0; round < 50; round++) await ask('lookup_undetermined')
  const story = await world.store.get(requestId)
  expect(story?.events).toHaveLength(2)
  expect(story?.timeLine.slice(-2)).toMatchObject([
    { kind: 'asked_later', reason: 'lookup_undetermined', evidence: { status: 500 } },
    { kind: 'asked_again', times: 49, at: world.clock.now, reason: 'lookup_undetermined' },
  ])
  for (let round = 0; round < 150; round++) await ask(round % 2 === 0 ? 'miss_not_settled' : 'lookup_undetermined')
  expect((await world.store.get(requestId))?.events.length).toBeLessThan(110)
  const { version = 0 } = (await world.store.get(requestId)) ?? {}
  const verdict = { kind: 'hold', reason: 'deadline', evidence: null } as const
  await world.turn({ reconciliations: [{ requestId, target: 'lookup', version, policy: LOOKUP, verdict }] })
  expect((await world.store.get(requestId))?.timeLine.slice(-2)).toMatchObject([
    { kind: 'asked_again', times: expect.any(Number), at: world.clock.now, reason: 'lookup_undetermined' },
    { kind: 'held', reason: 'deadline' },
  ])
  await world.store.close()
})

test('each call is told with its key, also those that were queued again, by the words that people know', async () => {
  const world = await openWorld()
  const { requestId } = await world.enqueue({ n: 1 })
  const first = await callOne(world)
  await world.turn({ results: [answer(first, notExecuted())] })
  world.clock.now += 5000
  const second = await callOne(world)
  expect((await world.store.get(requestId))?.timeLine.at(-1)).toMatchObject({
    kind: 'called',
    attempt: 2,
    key: second.key,
  })
  await world.turn({ results: [answer(second, unknown())] })
  const { timeLine = [] } = (await world.store.get(requestId)) ?? {}
  expect(timeLine).toMatchObject([
    { kind: 'enqueued' },
    { kind: 'called', attempt: 1, at: 1_000_000, key: first.key, fingerprint: FINGERPRINT },
    { kind: 'not_executed', from: 'invoking', to: 'scheduled', evidence: { status: 425 } },
    { kind: 'called', attempt: 2, at: 1_005_000, key: second.key, fingerprint: FINGERPRINT },
    { kind: 'unknown', from: 'invoking', to: 'unknown', evidence: { error: 'ECONNRESET' } },
  ])
  await world.store.close()
})
