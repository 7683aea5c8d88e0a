// A dry run explains each decision: which rung, why, when; it asks lookups, and neither writes nor calls.
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type DryRunLine, type GivenTarget, httpTarget, type Onceish } from '../../src/index.ts'
import { type CrashPoint, type FakeApi, openForTest, virtualClock } from '../../src/testing.ts'
import { contentOf } from '../support/content.ts'
import { openFakeApi } from '../support/counting-api.ts'
import { tempDir } from '../support/temp-dir.ts'
import { dryRunOf } from '../support/worker.ts'

const HOUR_MS = 3_600_000
const LEASE_MS = 60_000

const submit = (url: string) => ({ url, timeoutMs: 5000, connection: 'fresh' as const })
const TASK_ID = '{% $response.body.id %}'
const KEY = { header: 'Idempotency-Key', rememberedFor: '24h', margin: '1h' } as const

function keyed(url: string) {
  return httpTarget({ name: 'keyed', submit: submit(url), idempotency: KEY, taskId: TASK_ID })
}

function listed(url: string) {
  return httpTarget({
    name: 'listed',
    submit: { ...submit(url), body: "{% $merge([$payload, { 'reference': $key }]) %}" },
    idempotency: {},
    taskId: TASK_ID,
    lookup: {
      url: `${url}?reference={% $key %}`,
      taskId: '{% $response.body.data.id %}',
      complete: true,
      settleMs: '2m',
      everyMs: '10s',
      misses: 1,
      missMeans: 'absent',
      remembers: '7d',
    },
  })
}

function opaque(url: string) {
  return httpTarget({ name: 'opaque', submit: submit(url), taskId: TASK_ID })
}

async function stage(kind: 'keyed' | 'lookup' | 'opaque', describe: (url: string) => GivenTarget) {
  const clock = virtualClock()
  const api = await openFakeApi({ kind, clock })
  const store = join(tempDir(), 'jobs.db')
  const open = async (targets: readonly GivenTarget[], crashAt?: CrashPoint) => {
    const once = await openForTest({ store, targets, clock, ...(crashAt && { crashAt }) })
    onTestFinished(() => once.close())
    return once
  }
  const target = describe(api.url)
  const crash = async (crashAt: CrashPoint) => {
    const once = await open([target], crashAt)
    await once.enqueue({ target: target.name, payload: { n: 1 } })
    await expect(once.startWorker().done).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
    await once.close()
  }
  return { clock, api, store, target, open, crash, startedAt: clock.wallNow() }
}

/** One line, after which the store and the API are as they were. */
async function lineOf(
  once: Pick<Onceish, 'dryRun'>,
  { store, api }: { store: string; api: FakeApi },
): Promise<DryRunLine> {
  const before = { content: await contentOf(store), effects: api.effects.length }
  const lines = await dryRunOf(once)
  expect({ content: await contentOf(store), effects: api.effects.length }).toEqual(before)
  expect(lines).toHaveLength(1)
  return lines[0] as DryRunLine
}

test('keyed: the lease first, then the replay and until when, then the hold and which rung led to it', async () => {
  const world = await stage('keyed', keyed)
  await world.crash('call:answered')
  const once = await world.open([world.target])
  const leaseUntil = world.startedAt + LEASE_MS
  expect(await lineOf(once, world)).toMatchObject({
    would: 'wait',
    rung: null,
    nextAt: leaseUntil,
    leaseUntil,
    says: expect.stringMatching(/is calling, or died in the call/),
  })
  world.clock.advance(LEASE_MS + 1)
  const windowClosesAt = world.startedAt + 23 * HOUR_MS
  expect(await lineOf(once, world)).toMatchObject({
    would: 'replay',
    rung: 'replay',
    nextAt: null,
    windowClosesAt,
    steps: [{ rung: 'replay', came: 'decided' }],
    says: `the same bytes are sent again under the same key, which the API remembers for long enough until ${new Date(windowClosesAt).toISOString()}`,
  })
  expect((await once.get(1))?.outlook).toMatchObject({ by: 'worker', step: 'wait', windowClosesAt })
  await once.pause('keyed')
  expect(await lineOf(once, world)).toMatchObject({
    paused: true,
    says: expect.stringContaining('once its target is resumed'),
  })
  await once.resume('keyed')
  world.clock.advance(23 * HOUR_MS)
  expect(await lineOf(once, world)).toMatchObject({
    would: 'hold',
    rung: 'hold',
    why: 'key_window_closed',
    steps: [
      { rung: 'replay', came: 'next', why: 'key_window_closed' },
      { rung: 'hold', came: 'decided', why: 'key_window_closed' },
    ],
    says: expect.stringMatching(/^held for a person: the API may have forgotten the key/),
  })
})

test('lookup: a miss waits for its settle time, and a find is adopted', async () => {
  const world = await stage('lookup', listed)
  await world.crash('call:before-write')
  const once = await world.open([world.target])
  world.clock.advance(LEASE_MS + 1)
  expect(await lineOf(once, world)).toMatchObject({
    would: 'later',
    rung: 'lookup',
    why: 'miss_not_settled',
    nextAt: expect.any(Number),
    steps: [{ rung: 'lookup', came: 'pending', why: 'miss_not_settled' }],
    says: expect.stringMatching(/^looked into again: the lookup shows nothing.*each process watches that time anew/),
  })
  // The same process has watched since.
  world.clock.advance(10 * 60_000)
  expect(await lineOf(once, world)).toMatchObject({ would: 'recall', rung: 'lookup', nextAt: null })

  const found = await stage('lookup', listed)
  await found.crash('call:answered')
  const later = await found.open([found.target])
  found.clock.advance(LEASE_MS + 1)
  const [effect] = found.api.effects
  expect(await lineOf(later, found)).toMatchObject({
    would: 'adopt',
    rung: 'lookup',
    says: `the lookup found task ${effect?.id}: it is adopted`,
  })
})

test('opaque is held, and what no target describes waits for the config', async () => {
  const world = await stage('opaque', opaque)
  await world.crash('call:answered')
  const once = await world.open([world.target])
  world.clock.advance(LEASE_MS + 1)
  expect(await lineOf(once, world)).toMatchObject({ would: 'hold', rung: 'hold', why: 'opaque' })
  await once.close()
  const without = await world.open([keyed(world.api.url)])
  expect(await lineOf(without, world)).toMatchObject({
    would: 'wait',
    rung: null,
    why: 'the config names no such target',
    says: expect.stringContaining('put it back, or resolve the request'),
  })
  expect((await without.get(1))?.outlook).toMatchObject({ by: 'person', step: 'word' })
})

test('credentials that are not set here are said, and are not taken for another account', async () => {
  const name = 'ONCEISH_TEST_DRY_RUN'
  process.env[name] = 'credential'
  onTestFinished(() => void delete process.env[name])
  const world = await stage('keyed', (url) =>
    httpTarget({
      name: 'keyed',
      submit: { ...submit(url), headers: { authorization: `{% $env.${name} %}` } },
      idempotency: KEY,
      taskId: TASK_ID,
    }),
  )
  await world.crash('call:answered')
  delete process.env[name]
  const once = await world.open([world.target])
  world.clock.advance(LEASE_MS + 1)
  expect(await lineOf(once, world)).toMatchObject({
    would: 'replay',
    says: expect.stringContaining('if the account is still the same: its credentials are not set here'),
  })
  process.env[name] = 'of somebody else'
  await once.close()
  expect(await lineOf(await world.open([world.target]), world)).toMatchObject({ would: 'hold', why: 'account_changed' })
})
