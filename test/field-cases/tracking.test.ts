// C23: a status that nobody named means that the task is still open. It is never a failure: that would start a repair.
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { RequestDetail } from '../../src/store/views.ts'
import { virtualClock } from '../../src/testing.ts'
import { tempDir } from '../support/temp-dir.ts'
import { DEADLINE_MS, HOUR_MS, openField } from './stage.ts'
import { startTaskApi, tracked } from './task-api.ts'

/** Submitted, and asked about until its end. */
async function trackOne(...answers: readonly object[]) {
  const api = await startTaskApi()
  api.say(...answers)
  const clock = virtualClock()
  // Leases that no question outlasts, however fast the clock runs: each is asked once.
  const worker = { leaseMs: HOUR_MS }
  const once = await openField({ store: join(tempDir(), 'jobs.db'), worker, targets: { job: tracked(api.url) } }, clock)
  await once.enqueue({ target: 'job', payload: { n: 1 } })
  const startedAt = clock.wallNow()
  once.startWorker()
  await clock.runUntil(once.waitFor(1, { until: 'finished' }))
  const request = (await once.get(1)) as RequestDetail
  const told = request.events.filter(({ kind }) => kind === 'status_unclear')
  return { api, request, told, tookMs: clock.wallNow() - startedAt }
}

test('C23 provider invents a status: told once, asked on, and the named end is found', async () => {
  const said = ['queued', 'granting', 'granting', 'granting', 'succeeded']
  const { api, request, told } = await trackOne(...said.map((status) => ({ status })))
  expect(request).toMatchObject({ state: 'succeeded', taskId: 'task-1' })
  expect(told).toMatchObject([{ reason: 'unlisted_state' }])
  expect(api.submits()).toBe(1)
  expect(api.polls()).toBe(5)
})

test.each([
  ['granting for ever', { status: 'granting' }],
  ['no status at all', { id: 'task-1' }],
])(
  'C23 provider invents a status: %s is expired at the deadline, not failed, and submitted once',
  async (_, answer) => {
    const { api, request, told, tookMs } = await trackOne(answer)
    expect(request).toMatchObject({ state: 'expired', reason: 'unlisted_state', taskId: 'task-1' })
    expect(tookMs).toBeGreaterThanOrEqual(DEADLINE_MS)
    expect(told).toHaveLength(1)
    expect(request.events.map(({ to }) => to)).not.toContain('failed')
    expect(api.submits()).toBe(1)
    expect(api.polls()).toBeGreaterThan(10)
  },
)
