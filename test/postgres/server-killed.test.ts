// The server is killed, with all of its processes, while workers of other processes have turns and calls under way: nothing happens
// twice, nothing is lost, and they go on by themselves.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { KINDS } from '../../fixtures/api/ledger.ts'
import { type Api, oracleAtRest, startApi } from '../support/api.ts'
import { openShop } from '../support/cli.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { openFleet } from './support/fleet.ts'

let api: Api
let server: PostgresServer
beforeAll(async () => {
  // A commit that a crash forgets is the server's choice, and not ours.
  ;[api, server] = await Promise.all([startApi(), startPostgres(['-c', 'synchronous_commit=off'])])
})
afterAll(async () => {
  await api.stop()
  await server.stop()
})

const EACH = 40
const KILLS = 3

test('killed and started again under two workers and a producer: no effect twice, nothing acknowledged is lost', async () => {
  const { once, config, location } = await openFleet(api, { server: server.url })
  const shop = openShop({ ...config, store: location })
  const numbers = KINDS.flatMap((target) => Array.from({ length: EACH }, (_, n) => ({ target, n: `${target} ${n}` })))
  const acknowledged: number[] = []
  const workers = [shop.start('work'), shop.start('work')]
  const producing = (async () => {
    for (const { target, n } of numbers) {
      // As a producer does that was told nothing: it says it again, and it is the same request.
      const { requestId } = await waitFor(() => once.enqueue({ target, payload: { n } }), {
        what: `the enqueue of ${n}`,
      })
      acknowledged.push(requestId)
    }
  })()
  for (let kills = 1; kills <= KILLS; kills++) {
    await waitFor(async () => (await api.oracle()).calls.length >= 10 * kills, { what: `calls before kill ${kills}` })
    await server.kill()
    await waitFor(() => server.start().then(() => true), { what: 'the server' })
  }
  await producing
  const settled = await waitFor(
    async () => {
      const { states } = await once.status()
      const { submitted = 0, held = 0 } = states
      return submitted + held === numbers.length && states
    },
    { what: 'all to end', timeoutMs: 60_000 },
  )
  for (const worker of workers) worker.kill('SIGTERM')
  const endings = await Promise.all(workers.map(({ ended }) => ended))

  expect(endings.map(({ code }) => code)).toEqual([143, 143])
  expect(new Set(acknowledged).size).toBe(numbers.length)
  const { effects } = await oracleAtRest(api)
  expect(effects.map(({ n }) => n).sort()).toEqual([...new Set(effects.map(({ n }) => n))].sort())
  // A call that was cut off by the lease of a worker without a store is a person's, of a kind that shows nothing.
  const held = await once.list({ state: 'held', limit: 1000 })
  expect(held.map(({ target }) => target).filter((target) => target !== 'messages')).toEqual([])
  expect(settled.submitted ?? 0).toBeGreaterThanOrEqual(3 * EACH)
  for (const { requestId, taskId, state } of await once.list({ limit: 1000 })) {
    const effect = effects.find((one) => one.taskId === taskId)
    if (state === 'submitted') expect(effect, `request ${requestId}`).toBeDefined()
  }
  for (const { stderr } of endings) {
    // Once an outage.
    const told = stderr.split('\n').filter((line) => line.includes('takes no writes'))
    expect(told.length).toBeLessThanOrEqual(KILLS)
    expect(stderr).not.toContain('"level":"fatal"')
  }
  expect(endings.some(({ stderr }) => stderr.includes('takes no writes'))).toBe(true)
})

test('killed right after an enqueue, with synchronous_commit off by default: what was acknowledged is there', async () => {
  const { once } = await openFleet(api, { server: server.url })
  const { requestId } = await once.enqueue({ target: 'renders', payload: { n: 'acknowledged' } })
  await server.kill()
  await server.start()
  expect(await once.get(requestId)).toMatchObject({ state: 'ready' })
})
