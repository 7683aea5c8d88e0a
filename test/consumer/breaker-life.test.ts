// A whole outage: calls fail, the breaker opens, probes fail and one succeeds, and the queue is worked off, each request once.
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { defineTarget } from '../../src/index.ts'
import { composeOnceish } from '../../src/onceish.ts'
import { virtualClock } from '../../src/testing.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'

const REQUESTS = 30
const AT_ONCE = 4
const FAILURES = 5

test('an outage costs few calls and no request, and nobody need act', async () => {
  const clock = virtualClock()
  let isDown = true
  const calls: { at: number; isDown: boolean }[] = []
  const target = defineTarget({
    name: 'renders',
    version: '1',
    payload: z.object({ n: z.number() }),
    policy: {
      timeoutMs: 2000,
      idempotency: { rememberedFor: '24h', margin: '1h' },
      retry: { initialMs: 100, maxMs: 1000 },
      breaker: { failures: FAILURES, probeAfter: '10s', maxProbeAfter: '40s' },
    },
    invoke: ({ key }) => {
      calls.push({ at: clock.wallNow(), isDown })
      if (isDown) throw new Error('503')
      return { kind: 'accepted', taskId: key ?? '' }
    },
  })
  const once = await composeOnceish({ store: join(tempDir(), 'jobs.db'), targets: [target], clock })
  onTestFinished(() => once.close())
  await once.enqueueMany(Array.from({ length: REQUESTS }, (_, n) => ({ target: 'renders', payload: { n } })))
  const worker = once.startWorker({ concurrency: AT_ONCE })
  const breaker = async () => (await once.status()).targets['renders']?.breaker ?? null
  await waitFor(async () => (await breaker()) !== null, { what: 'the breaker to open' })
  const beforeOpening = calls.length
  expect(beforeOpening).toBeLessThan(FAILURES + AT_ONCE)

  for (const [failed, waitMs] of [10_000, 20_000, 40_000].entries()) {
    clock.advance(waitMs - 1)
    expect(calls).toHaveLength(beforeOpening + failed)
    clock.advance(1)
    await waitFor(
      async () => {
        clock.advance(1)
        return (await breaker())?.failedProbes === failed + 1
      },
      { what: `probe ${failed + 1} to fail` },
    )
  }
  expect(calls).toHaveLength(beforeOpening + 3)

  isDown = false
  await waitFor(
    async () => {
      clock.advance(500)
      return (await once.status()).states['submitted'] === REQUESTS
    },
    { what: 'the queue to be worked off' },
  )
  expect(await breaker()).toBeNull()
  expect(calls.filter((call) => !call.isDown)).toHaveLength(REQUESTS)
  await worker.stop()
})
