// What doctor finds in a real store, on either engine: work that nobody does, and answers that lie about.
import { expect, onTestFinished, test } from 'vitest'
import { parseConfig } from '../../src/config/options.ts'
import type { AttemptResult } from '../../src/core/settlement.ts'
import { diagnose } from '../../src/index.ts'
import { openStore } from '../../src/store/open-store.ts'
import { writeSpill } from '../../src/store/spill.ts'
import { newLocation } from '../support/engine.ts'
import { accepted, openWorld } from '../support/store.ts'
import { tempDir } from '../support/temp-dir.ts'

const AN_HOUR_AGO = Date.now() - 3_600_000

async function stage() {
  const stateFolder = tempDir()
  const opaque = { submit: { url: 'http://127.0.0.1:9/' }, taskId: 'none' }
  const world = await openWorld({ path: newLocation(), now: AN_HOUR_AGO })
  onTestFinished(() => world.store.close())
  const config = parseConfig(
    { store: world.path, targets: { opaque }, worker: { stateFolder } },
    { path: null, baseDir: '/' },
  )
  const check = async (name: string) => (await diagnose({ config })).find((one) => one.name === name)
  return { world, stateFolder, check }
}

test('what has been due for long and is called by nobody is told, until somebody does or a person has paused it', async () => {
  const { world, check } = await stage()
  expect(await check('unworked')).toMatchObject({ ok: 'ok' })
  await world.enqueue(1, { target: 'opaque' })
  await world.enqueue(2, { target: 'opaque' })
  expect(await check('unworked')).toMatchObject({ ok: 'warn', found: expect.stringMatching(/opaque \(for (59m|1h)\)/) })
  await world.store.pause('opaque', null, 'ada', Date.now())
  expect(await check('unworked')).toMatchObject({ ok: 'ok' })
  await world.store.resume('opaque', 'ada', Date.now())
  world.clock.now = Date.now()
  expect((await world.turn({ slots: 1 })).calls).toHaveLength(1)
  expect(await check('unworked')).toMatchObject({ ok: 'ok' })
})

test('answers that lie on this machine are told, and those of before a restore by their requests', async () => {
  const { world, stateFolder, check } = await stage()
  expect(await check('spilled_answers')).toMatchObject({ ok: 'ok' })
  const store = await openStore(world.path, { create: false, now: AN_HOUR_AGO, stateFolder })
  onTestFinished(() => store.close())
  const { folderPath, incarnation } = await store.facts()
  const result: AttemptResult = {
    requestId: 7,
    target: 'opaque',
    attempt: 1,
    nonce: 'n',
    idempotencyKey: null,
    outcome: accepted('t7'),
    endedAt: 1,
  }
  writeSpill({ storePath: String(folderPath), incarnation, boot: 'dead' }, [result])
  expect(await check('spilled_answers')).toMatchObject({ ok: 'warn', found: expect.stringMatching(/^1 answer /) })
  await store.declareOwn('store_restored', { now: Date.now(), actor: 'ada' }, {})
  expect(await check('spilled_answers')).toMatchObject({
    ok: 'warn',
    found: expect.stringMatching(/spill-dead\.ndjson \(requests 7\)$/),
  })
})
