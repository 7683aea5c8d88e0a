import Database from 'better-sqlite3'
import { expect } from 'vitest'
import { testOnSqlite } from '../support/engine.ts'
import { openWorld } from '../support/store.ts'

testOnSqlite('states are counted over all ids, however many there are and wherever a purge left gaps', async () => {
  const world = await openWorld()
  const db = new Database(world.path)
  await world.enqueue({ n: 0 })
  for (const [n, lastId] of [49_998, 50_000, 250_000].entries()) {
    db.prepare(`UPDATE sqlite_sequence SET seq = ? WHERE name = 'requests'`).run(lastId)
    await world.enqueue({ n, after: lastId })
  }
  const { calls } = await world.turn({ slots: 4 })
  expect(calls.map(({ requestId }) => requestId)).toEqual([1, 49_999, 50_001, 250_001])
  const { states, targets } = await world.store.status()
  expect(states).toEqual({ invoking: 4 })
  expect(targets['keyed']?.states).toEqual({ invoking: 4 })
  db.close()
  await world.store.close()
})
