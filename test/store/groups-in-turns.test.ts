// What is no turn of a group, and what costs it none.
import { expect, test } from 'vitest'
import { answer, KEYED, LOOKUP, openWorld, unknown } from '../support/store.ts'

const word = { now: 1_000_000, actor: 'ada', note: null, ifVersion: null }

test.each([null, 'acme'])('a turn that adopts the head of a key calls the one behind it, group %s', async (group) => {
  const world = await openWorld()
  for (const n of [1, 2]) await world.enqueue({ n }, { target: 'lookup', orderingKey: 'k', group })
  const { calls } = await world.turn({ slots: 1 })
  await world.turn({ results: calls.map((call) => answer(call, unknown())) })
  world.clock.now += 60_000
  const { investigations } = await world.turn({ investigations: 1 })
  const verdict = { kind: 'adopt', taskId: 't', evidence: { phase: 'answered', status: 200 } } as const
  const reconciliations = investigations.map(({ row: { requestId, target, version } }) => {
    return { requestId, target, version, policy: LOOKUP, verdict }
  })
  const result = await world.turn({ slots: 1, reconciliations })
  expect(result.calls.map(({ requestId }) => requestId)).toEqual([2])
})

test('a request that is moved keeps the place of its group', async () => {
  const world = await openWorld()
  for (const [n, group] of ['flood', 'small', 'flood', 'flood', 'flood'].entries())
    await world.enqueue({ n }, { group })
  const called: number[] = []
  for (let priority = 1; priority <= 4; priority++) {
    await world.store.reprioritize(2, priority, word)
    for (const { requestId } of (await world.turn({ slots: 1 })).calls) called.push(requestId)
  }
  expect(called).toContain(2)
})

test('those of a key that expire one after the other leave their group its place', async () => {
  const world = await openWorld({ policies: { keyed: { ...KEYED, onDead: 'continue' } } })
  for (let n = 0; n < 20; n++) await world.enqueue({ n }, { group: n % 2 === 0 ? 'a' : 'b' })
  for (let n = 1; n < 9; n++)
    await world.enqueue({ small: n }, { group: 'small', orderingKey: 'k', expiresAt: 1_000_500 + n * 1000 })
  const groups: unknown[] = []
  for (; groups.length < 8; world.clock.now += 1000)
    for (const { requestId } of (await world.turn({ slots: 1 })).calls)
      groups.push((await world.store.get(requestId))?.group)
  expect(groups).toContain('small')
})

test('what cannot be rendered is no turn of its group', async () => {
  const world = await openWorld()
  for (let n = 0; n < 10; n++) await world.enqueue({ n }, { group: n < 6 ? 'a' : 'b' })
  const call = { method: 'POST', url: 'http://127.0.0.1/', headers: {}, body: null, account: null }
  const claim = { slots: 1, lookFrom: null, targets: [{ name: 'keyed', policy: KEYED }] }
  const called: number[] = []
  for (let turn = 0; turn < 2; turn++) {
    const { calls } = await world.turn({
      claim: {
        ...claim,
        prepare: ({ requestId }) =>
          requestId <= 4
            ? { kind: 'dead', reason: 'payload_misfit', note: 'no' }
            : { kind: 'prepared', key: null, call, targetVersion: 'v1' },
      },
    })
    for (const { requestId } of calls) called.push(requestId)
  }
  expect(called.toSorted()).toEqual([5, 7])
})
