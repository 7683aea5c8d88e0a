// More targets than one turn looks at: each comes up in turn, and those that are closed keep nobody waiting.
import { expect, onTestFinished, test } from 'vitest'
import { KEYED, openWorld, type World } from '../support/store.ts'

const TARGETS = Array.from({ length: 200 }, (_, i) => `t${String(i).padStart(3, '0')}`)

async function openMany(requests: number, served: readonly string[] = TARGETS): Promise<World> {
  const world = await openWorld({ policies: Object.fromEntries(served.map((name) => [name, KEYED])) })
  onTestFinished(() => world.store.close())
  for (let n = 0; n < requests; n++) for (const target of TARGETS) await world.enqueue({ n }, { target })
  return world
}

/** Claims like a worker with so many free slots, turn after turn, until a turn says that there is no more. */
async function claimAll(world: World, slots: number): Promise<string[]> {
  const called: string[] = []
  for (let lookFrom: string | null = null; ; ) {
    const { calls, lookedThrough, moreReady } = await world.turn({ slots, lookFrom })
    called.push(...calls.map(({ target }) => target))
    lookFrom = lookedThrough
    if (!moreReady) return called
  }
}

test('every target is called once before any is called twice, however few slots there are', async () => {
  const world = await openMany(2)
  const called = await claimAll(world, 10)
  expect(called).toHaveLength(2 * TARGETS.length)
  // What a turn reads is as much as 64 lanes can need, so a round may begin before the last is over by no more.
  const firstRound = new Set(called.slice(0, TARGETS.length + 64))
  expect([...firstRound].sort()).toEqual(TARGETS)
})

test('targets that are paused, or that nobody serves, are passed over in the same turn', async () => {
  const served = TARGETS.slice(50)
  const world = await openMany(1, served)
  for (const name of TARGETS.slice(50, 190)) await world.store.pause(name, null, 'test', world.clock.now)
  const { calls, moreReady } = await world.turn({ slots: 100 })
  expect(calls.map(({ target }) => target).sort()).toEqual(TARGETS.slice(190))
  expect(moreReady).toBe(false)
})

test('a turn looks at no more than it can need, and says where it ended', async () => {
  const world = await openMany(1)
  const { calls, lookedThrough, moreReady } = await world.turn({ slots: 100 })
  expect(calls).toHaveLength(64)
  expect({ lookedThrough, moreReady }).toEqual({ lookedThrough: 't063', moreReady: true })
  const next = await world.turn({ slots: 100, lookFrom: lookedThrough })
  expect(next.calls.map(({ target }) => target)).toEqual(TARGETS.slice(64, 128))
})
