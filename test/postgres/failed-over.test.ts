// A standby that has not got the last commits is promoted, or the database is put back from a backup: it has forgotten calls, says so,
// and calls nothing before a person has spoken. (Two servers that are one to whoever asks them by the address that is moved.)
import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { ALL_DONE, callsOf, DONE, enqueueBatch, fatesOf, HELD } from '../machine/support/batch.ts'
import { type Api, startApi } from '../support/api.ts'
import { openShop } from '../support/cli.ts'
import { copyServer, type PostgresServer, startPostgres, startServer } from '../support/postgres-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { openBehind, openFleet } from './support/fleet.ts'

let api: Api
let primary: PostgresServer
beforeAll(async () => {
  ;[api, primary] = await Promise.all([startApi(), startPostgres()])
})
afterAll(async () => {
  await api.stop()
  await primary.stop()
})

for (const as of ['standby', 'restored'] as const) {
  const what = as === 'standby' ? 'a standby that lags is promoted' : 'the database is put back from a backup'
  test(`${what}: nothing is called until "recover --restored", which reconciles`, async () => {
    const { once, config, proxy } = await openFleet(api, { server: primary.url })
    const early = await enqueueBatch(once)
    await once.startWorker(DRAIN).done
    const forgotten = await enqueueBatch(once)
    const copy = await copyServer(primary)
    onTestFinished(() => rmSync(copy, { recursive: true, force: true }))
    // From here on nothing reaches the other one.
    const shop = openShop(config)
    const worker = shop.start('work')
    await waitFor(async () => (await once.status()).states.submitted === 8, { what: 'all to be called' })
    const lost = await once.enqueue({ target: 'renders', payload: { n: `lost at ${as}` } })
    await waitFor(async () => (await once.get(lost.requestId))?.state === 'submitted', { what: 'the last call' })

    const other = await startServer({ copy, as })
    onTestFinished(() => other.stop())
    proxy.close()
    proxy.moveTo(other.port)
    if (as === 'standby') {
      proxy.open()
      expect(await shop.json('status')).toMatchObject({ origin: 'own' })
      await other.ask('SELECT pg_promote()')
    } else proxy.open()

    // The worker that outlived it, and every other.
    const { code, stderr } = await worker.ended
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^error STORE_RESTORED: .*a standby was promoted/m),
    })
    const next = await shop.run('work', '--drain')
    expect(next).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^error STORE_RESTORED: .*onceish recover --restored/m),
    })
    expect(await shop.json('status')).toMatchObject({ origin: 'restored', states: { submitted: 4, ready: 4 } })
    expect((await shop.run('status')).stdout).toMatch(/nothing of this store is called.*recover --restored/)
    const examined = await shop.run('doctor')
    expect(examined).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^fail {2}origin .*a standby was promoted/m),
    })
    expect(examined.stdout).toMatch(/-> onceish recover --restored/)
    expect(await callsOf(api, forgotten)).toBe(4)

    const recovered = await shop.run('recover', '--restored')
    expect(recovered.code).toBe(3)
    const { once: after } = await openBehind(config)
    expect(await fatesOf(api, after, early)).toEqual(ALL_DONE)
    expect(await fatesOf(api, after, forgotten)).toEqual({
      // Asked again under the key, which the API remembers.
      executions: { ...DONE, calls: 2 },
      renders: { ...DONE, calls: 2 },
      parcels: DONE,
      messages: HELD,
    })
    expect(await after.get(lost.requestId)).toBeNull()
    expect(await after.origin()).toEqual({ kind: 'own' })
    const fresh = await enqueueBatch(after)
    await after.startWorker(DRAIN).done
    expect(await fatesOf(api, after, fresh)).toEqual(ALL_DONE)
  })
}
