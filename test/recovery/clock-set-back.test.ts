// A wall clock that was ahead when a call was made, and is set right afterwards, makes the call look younger than it is.
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Clock } from '../../src/core/clock.ts'
import { httpTarget } from '../../src/index.ts'
import { composeOnceish } from '../../src/onceish.ts'
import { startFakeApi, virtualClock } from '../../src/testing.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'

const HOUR = 3_600_000
const AHEAD_MS = 3 * HOUR

test('a key that is forgotten by now is not used again by a process that never saw the clock being set back', async () => {
  const truth = virtualClock()
  let offset = AHEAD_MS
  const clock: Clock = { ...truth, wallNow: () => truth.wallNow() + offset }
  const api = await startFakeApi({ kind: 'keyed', clock: truth, rememberedForMs: 24 * HOUR })
  onTestFinished(() => api.close())
  const target = httpTarget({
    name: 'render',
    submit: { url: api.url, timeoutMs: 2000 },
    idempotency: { header: 'Idempotency-Key', rememberedFor: '24h', margin: '1h' },
    taskId: '{% $response.body.id %}',
  })
  const store = join(tempDir(), 'jobs.db')
  const open = () => composeOnceish({ store, targets: [target], clock })

  const first = await open()
  api.failNext('reset-after-effect')
  const { requestId } = await first.enqueue({ target: 'render', payload: { n: 1 } })
  const worker = first.startWorker()
  await waitFor(async () => (await first.get(requestId))?.state === 'unknown', { what: 'doubt' })
  await first.pause('render')
  offset = 0
  await waitFor(
    async () => {
      truth.advance(50)
      return (await first.facts()).clockAheadMs > AHEAD_MS - HOUR
    },
    { what: 'the clock to be seen' },
  )
  await worker.stop()
  await first.close()

  truth.advance(24.5 * HOUR)
  const second = await open()
  await second.resume('render')
  await truth.runUntil(second.startWorker({ drain: { horizonMs: HOUR } }).done)
  expect(await second.get(requestId)).toMatchObject({ state: 'held', reason: 'key_window_closed' })
  expect(api.effects).toHaveLength(1)
  await second.close()
})
