// What a turn reads does not grow with the queue, whatever its plans were made of.
import { expect, onTestFinished, test } from 'vitest'
import { askStore } from '../support/ask-store.ts'
import { accepted, answer, openWorld, type World } from '../support/store.ts'
import { waitFor } from '../support/wait-for.ts'

const STANDING = 6000
const TURNS = 8
const SLOTS = 8

/** Rows of tables and entries of indexes that anybody has read, as sessions tell when they end. */
async function readsOf(path: string): Promise<number> {
  const [row] = await askStore(
    path,
    `SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = current_schema())::float8
       + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = current_schema())::float8 AS reads`,
  )
  return row?.['reads'] as number
}

/** Once everybody who is gone has told. */
async function restedReads(path: string): Promise<number> {
  let last = -1
  return waitFor(
    async () => {
      const before = last
      last = await readsOf(path)
      return last === before && { last }
    },
    { what: 'the statistics' },
  ).then(({ last }) => last)
}

async function work(world: World): Promise<number> {
  const { calls } = await world.turn({ slots: SLOTS, investigations: 2 })
  await world.turn({ results: calls.map((call) => answer(call, accepted(`t${call.requestId}`), world.clock.now)) })
  return calls.length
}

async function enqueue(world: World, from: number, requests: number, options: object = {}): Promise<void> {
  const made = Array.from({ length: requests }, (_, n) => ({
    target: 'keyed', payload: '{}', logicalHash: `n${from + n}`, ledgerHash: Buffer.alloc(32, 0).fill(`${from + n}`), payloadHash: Buffer.alloc(32),
    priority: 0, dueAt: null, orderingKey: null, group: null, dedupe: 'always' as const, expiresAt: null, ...options,
  })) // biome-ignore format: a request
  await world.store.enqueue(made as never, world.clock.now)
}

for (const [name, options] of [
  ['plain requests', {}],
  ['requests of a group', { group: 'g' }],
] as const) {
  test(`plans that were made of an empty queue: a turn beside thousands of ${name} reads what it is about`, async () => {
    const world = await openWorld()
    onTestFinished(() => world.store.close())
    await enqueue(world, 0, SLOTS, options)
    await work(world)
    // As vacuum leaves tables that it found empty, and could not shorten.
    for (const table of ['ready', 'requests', 'waiting', 'group_rotation'])
      await askStore(world.path, `VACUUM (ANALYZE, TRUNCATE OFF, INDEX_CLEANUP ON) ${table}`)
    await enqueue(world, 10, SLOTS, options)
    for (let turn = 0; turn < 8; turn++) await work(world)
    for (let batch = 0; batch < 6; batch++) await enqueue(world, 100 + batch * 1000, STANDING / 6, options)
    const before = await restedReads(world.path)
    let claimed = 0
    for (let turn = 0; turn < TURNS; turn++) claimed += await work(world)
    await world.store.close()
    expect(claimed).toBe(TURNS * SLOTS)
    expect((await restedReads(world.path)) - before).toBeLessThan(STANDING)
  })
}

test('who has claimed thousands vacuums the queue, so that the next need not go through what is gone', async () => {
  const world = await openWorld()
  onTestFinished(() => world.store.close())
  const claims = 10_000
  for (let from = 0; from < claims; from += 1000) await enqueue(world, 100_000 + from, 1000)
  let claimed = 0
  while (claimed < claims) claimed += (await world.turn({ slots: 500 })).calls.length
  const vacuums = `SELECT vacuum_count::int AS n FROM pg_stat_user_tables WHERE schemaname = current_schema() AND relname = 'ready'`
  await waitFor(async () => (await askStore(world.path, vacuums))[0]?.['n'] === 1, { what: 'the vacuum' })
})
