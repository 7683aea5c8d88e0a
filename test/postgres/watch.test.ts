// Whoever waits for commits hears of each, in whatever order transactions begin and end.
import type pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../support/connect.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { openWorld, type World } from '../support/store.ts'

/** On a server where nobody else commits. */
async function openAlone(): Promise<World> {
  const server = await startPostgres(['-c', 'autovacuum=off'])
  onTestFinished(() => server.stop())
  const world = await openWorld({ path: `${server.url}?schema=alone` })
  onTestFinished(() => world.store.close())
  return world
}

async function begin(location: string): Promise<pg.Client> {
  const client = await connect(location)
  await client.query('BEGIN')
  // From here on it has a number.
  await client.query('SELECT pg_current_xact_id()')
  return client
}

test('a commit of a transaction that is older than the last one is news too', async () => {
  const world = await openAlone()
  const [older, newer] = [await begin(world.path), await begin(world.path)]
  const hears = world.store.watchCommits()
  await hears()
  await newer.query('COMMIT')
  expect(await hears()).toBe(true)
  expect(await hears()).toBe(false)
  await older.query('COMMIT')
  expect(await hears()).toBe(true)
})

test('what was committed before the first question is no secret', async () => {
  const world = await openAlone()
  const hears = world.store.watchCommits()
  const other = await begin(world.path)
  await other.query('COMMIT')
  expect(await hears()).toBe(true)
})
