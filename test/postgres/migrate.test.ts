// A schema of an older version is brought to this one's, with its requests.
import { expect, onTestFinished, test } from 'vitest'
import { openStore } from '../../src/store/open-store.ts'
import { askStore } from '../support/ask-store.ts'
import { newLocation } from '../support/engine.ts'
import { accepted, answer, openWorld, type World } from '../support/store.ts'

/** As an older version left it: its functions have other parameters and results. */
async function age(world: World): Promise<void> {
  await askStore(
    world.path,
    `DROP FUNCTION settle_plainly(json, bigint), rows_of(bigint[]), heads_of(text, integer);
     CREATE FUNCTION settle_plainly(given json, now_ms bigint) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT 1::bigint WHERE false';
     CREATE FUNCTION rows_of(ids bigint[], ledger boolean) RETURNS TABLE (t text, r json) LANGUAGE sql AS 'SELECT NULL::text, NULL::json WHERE false';
     CREATE FUNCTION heads_of(lane text, wanted integer) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT 1::bigint WHERE false';
     CREATE FUNCTION of_somebody_else() RETURNS integer LANGUAGE sql AS 'SELECT 1';
     UPDATE store SET schema_version = 1`,
  )
}

test('functions of an older version make way for this one’s, and nobody else’s do', async () => {
  const world = await openWorld()
  onTestFinished(() => world.store.close())
  await world.enqueue({ n: 1 })
  await age(world)
  await expect(openStore(world.path, { create: false, now: world.clock.now })).rejects.toMatchObject({
    code: 'STORE_SCHEMA_OLDER',
  })
  const migrated = await openWorld({ path: world.path })
  onTestFinished(() => migrated.store.close())
  const { calls } = await migrated.turn({ slots: 1 })
  const results = calls.map((call) => answer(call, accepted('t1'), world.clock.now))
  expect((await migrated.turn({ results })).settled).toMatchObject([{ state: 'submitted' }])
  const names = await askStore(
    world.path,
    `SELECT proname, count(*)::int AS n FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
       AND proname IN ('rows_of', 'of_somebody_else') GROUP BY 1 ORDER BY 1`,
  )
  expect(names).toEqual([
    { proname: 'of_somebody_else', n: 1 },
    { proname: 'rows_of', n: 1 },
  ])
})

test('many processes make the tables at the same time: one does, and all have the same store', async () => {
  const path = newLocation()
  const stores = await Promise.all(
    Array.from({ length: 6 }, () => openStore(path, { create: true, now: 1_000_000, isTimeGiven: true })),
  )
  onTestFinished(async () => {
    for (const store of stores) await store.close()
  })
  const namespaces = await Promise.all(stores.map(async (store) => (await store.facts()).namespace))
  expect(new Set(namespaces).size).toBe(1)
  expect(await askStore(path, 'SELECT id FROM store')).toEqual([{ id: 1 }])
})

test('tables whose rows come and go leave room on their pages, and are vacuumed early', async () => {
  const world = await openWorld()
  onTestFinished(() => world.store.close())
  const rows = await askStore(
    world.path,
    `SELECT relname, array_to_string(reloptions, ' ') AS options FROM pg_class
     WHERE relnamespace = current_schema()::regnamespace AND relname IN ('ready', 'requests', 'waiting', 'task_state')`,
  )
  const optionsOf = Object.fromEntries(rows.map(({ relname, options }) => [relname, options]))
  for (const table of ['ready', 'requests', 'waiting', 'task_state'])
    expect(optionsOf[table], table).toMatch(/autovacuum_vacuum_scale_factor=0\.01/)
  expect(optionsOf['task_state']).toMatch(/fillfactor=70/)
})
