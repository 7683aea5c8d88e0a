// Turns of several workers at the same time: what each waits for, and what it does not.
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { accepted, answer, KEYED, OPAQUE, openWorld, unknown, type World } from '../support/store.ts'

const TROUBLED = { ...KEYED, breaker: { failures: 9, rate: null, probeMs: 1000, maxProbeMs: 4000 } }

async function open(): Promise<World> {
  const world = await openWorld({ policies: { troubled: TROUBLED, calm: OPAQUE } })
  onTestFinished(() => world.store.close())
  return world
}

/** Another worker's turn on that target, in the middle of its transaction. */
async function standInTurn(path: string, locking: string): Promise<{ end(): Promise<void> }> {
  const client = new pg.Client(path.split('?')[0])
  await client.connect()
  await client.query(`SET search_path = ${new URL(path).searchParams.get('schema')}`)
  await client.query('BEGIN')
  await client.query(locking)
  let isOver = false
  const end = async () => {
    if (isOver) return
    isOver = true
    await client.query('ROLLBACK')
    await client.end()
  }
  onTestFinished(end)
  return { end }
}

test('while one turn counts the failures of a target, others go on with theirs', async () => {
  const world = await open()
  await world.enqueue({ n: 1 }, { target: 'troubled' })
  const [failing] = (await world.turn({ slots: 1 })).calls
  if (failing === undefined) throw new Error('nothing was claimed')
  await world.turn({ results: [answer(failing, unknown(), world.clock.now)] })
  await world.enqueue({ n: 2 }, { target: 'calm' })
  const other = await standInTurn(world.path, `SELECT 1 FROM breakers WHERE target = 'troubled' FOR UPDATE`)
  const { calls } = await world.turn({ slots: 2 })
  expect(calls.map(({ target }) => target)).toEqual(['calm'])
  const results = calls.map((call) => answer(call, accepted('t1'), world.clock.now))
  expect((await world.turn({ results })).settled).toMatchObject([{ state: 'submitted' }])
  await other.end()
})

test('an answer of the same target waits for the turn before it', async () => {
  const world = await open()
  for (const n of [1, 2]) await world.enqueue({ n }, { target: 'troubled' })
  const [first, second] = (await world.turn({ slots: 2 })).calls
  if (first === undefined || second === undefined) throw new Error('nothing was claimed')
  await world.turn({ results: [answer(first, unknown(), world.clock.now)] })
  const other = await standInTurn(world.path, `SELECT 1 FROM breakers WHERE target = 'troubled' FOR UPDATE`)
  let isOver = false
  const turn = world.turn({ results: [answer(second, unknown(), world.clock.now)] }).finally(() => {
    isOver = true
  })
  const client = new pg.Client(world.path.split('?')[0])
  await client.connect()
  const waiting = async () => {
    const { rows } = await client.query(
      `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%turn_rows%'`,
    )
    return rows.length > 0
  }
  while (!(await waiting())) expect(isOver).toBe(false)
  await client.end()
  await other.end()
  expect((await turn).settled).toMatchObject([{ applied: true }])
})
