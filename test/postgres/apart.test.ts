// Turns of several workers at the same time: what each waits for, and what it does not.
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../support/connect.ts'
import { accepted, answer, KEYED, OPAQUE, openWorld, unknown, type World } from '../support/store.ts'

const TROUBLED = { ...KEYED, breaker: { failures: 9, rate: null, probeMs: 1000, maxProbeMs: 4000 } }

async function open(): Promise<World> {
  const world = await openWorld({ policies: { troubled: TROUBLED, calm: OPAQUE } })
  onTestFinished(() => world.store.close())
  return world
}

/** Another worker's turn on that target, in the middle of its transaction. */
async function standInTurn(world: World): Promise<{ isWaitedFor(): Promise<boolean>; end(): Promise<unknown> }> {
  const [client, monitor] = [await connect(world.path), await connect(world.path)]
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid')
  const schema = new URL(world.path).searchParams.get('schema')
  await client.query('BEGIN')
  await client.query(`SELECT 1 FROM ${schema}.breakers WHERE target = 'troubled' FOR UPDATE`)
  return {
    isWaitedFor: async () => {
      const text = 'SELECT 1 FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))'
      return (await monitor.query(text, [rows[0].pid])).rows.length > 0
    },
    end: () => client.query('ROLLBACK'),
  }
}

test('while one turn counts the failures of a target, others go on with theirs', async () => {
  const world = await open()
  await world.enqueue({ n: 1 }, { target: 'troubled' })
  const [failing] = (await world.turn({ slots: 1 })).calls
  if (failing === undefined) throw new Error('nothing was claimed')
  await world.turn({ results: [answer(failing, unknown(), world.clock.now)] })
  await world.enqueue({ n: 2 }, { target: 'calm' })
  const other = await standInTurn(world)
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
  const other = await standInTurn(world)
  let isOver = false
  const turn = world.turn({ results: [answer(second, unknown(), world.clock.now)] }).finally(() => {
    isOver = true
  })
  while (!(await other.isWaitedFor())) expect(isOver).toBe(false)
  await other.end()
  expect((await turn).settled).toMatchObject([{ applied: true }])
})
