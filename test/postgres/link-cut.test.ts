// Two hosts, and the link of one to the database is cut while its calls run: the other takes over what may be taken over, and when the
// link is back, what the first was told meanwhile is settled. Nothing happens twice.

import { once as emitted } from 'node:events'
import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { ALL_DONE, callsOf, enqueueBatch, fatesOf } from '../machine/support/batch.ts'
import { type Api, merge, startApi } from '../support/api.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'
import { openFleet } from './support/fleet.ts'
import { type Host, listenOn, openApiAddress, openHost } from './support/host.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

test('a host that loses its link to the database in mid-call, and gets it back', async (context) => {
  const address = openApiAddress(context)
  const [first, second] = [openHost(context), openHost(context)]
  const port = await listenOn(address, Number(new URL(api.origin).port))
  const server = await startPostgres(['-c', 'listen_addresses=*'])
  onTestFinished(() => server.stop())
  const [row] = await server.ask('SHOW hba_file')
  appendFileSync(String(row?.['hba_file']), 'host all all 10.77.0.0/16 password\n')
  await server.ask('SELECT pg_reload_conf()')
  const { once, config, location } = await openFleet(api, { server: server.url })

  const startOn = async (host: Host) => {
    const folder = tempDir()
    const store = new URL(location)
    store.hostname = host.database
    const text = JSON.stringify(merge(config, { store: store.toString(), worker: { stateFolder: folder } }))
    writeFileSync(join(folder, 'onceish.config.json'), text.replaceAll(api.origin, `http://${address}:${port}`))
    return host.start(folder, 'work')
  }
  const one = await startOn(first)
  await waitFor(
    async () => (await server.ask(`SELECT 1 FROM pg_stat_activity WHERE client_addr << '10.77.0.0/16'`)).length,
    {
      what: 'the first host to be there',
    },
  )
  const batch = await enqueueBatch(once, 'slow:700')
  await waitFor(async () => (await callsOf(api, batch)) === 4, { what: 'four calls of the first host' })
  first.cutDatabase()
  const other = await startOn(second)
  await waitFor(
    async () => {
      const { submitted = 0, held = 0 } = (await once.status()).states
      return submitted === 3 && held === 1
    },
    { what: 'the second host to take over', timeoutMs: 60_000 },
  )
  // It has noticed by itself, though nobody told it.
  await waitFor(() => one.said().includes('takes no writes'), { what: 'the first host to notice', timeoutMs: 60_000 })
  expect(one.said()).toMatch(/STORE_UNREACHABLE/)
  first.mendDatabase()
  await waitFor(async () => (await once.status()).states.submitted === 4, { what: 'its answers', timeoutMs: 60_000 })
  const fates = await fatesOf(api, once, batch)
  for (const [kind, fate] of Object.entries(fates))
    expect({ kind, ...fate, calls: 1 }).toEqual({ kind, ...ALL_DONE.messages })
  expect(await once.orphans()).toEqual([])
  for (const child of [one, other]) {
    const over = emitted(child, 'close')
    child.kill('SIGTERM')
    await over
  }
})
