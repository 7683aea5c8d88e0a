// A key that was rotated while a call of the old one was in doubt: the target says whether both are of one account.
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { sayReason } from '../../src/core/reasons.ts'
import { httpTarget } from '../../src/index.ts'
import { openForTest, virtualClock } from '../../src/testing.ts'
import { openFakeApi } from '../support/counting-api.ts'
import { tempDir } from '../support/temp-dir.ts'

/** What becomes of a call that was made with one key, and is looked into with another. */
async function rotated(account: { account?: string }) {
  const clock = virtualClock()
  const api = await openFakeApi({ kind: 'keyed', clock })
  const target = httpTarget({
    name: 'render',
    submit: { url: api.url, headers: { authorization: '{% $env.ONCEISH_TEST_ROTATED %}' } },
    idempotency: { header: 'Idempotency-Key', rememberedFor: '24h' },
    taskId: '{% $response.body.id %}',
    ...account,
  })
  const store = join(tempDir(), 'jobs.db')
  const open = () => openForTest({ store, targets: [target], clock })
  vi.stubEnv('ONCEISH_TEST_ROTATED', 'the old key')
  const first = await openForTest({ store, targets: [target], clock, crashAt: 'call:answered' })
  const { requestId } = await first.enqueue({ target: 'render', payload: { video: 'a' } })
  await expect(first.startWorker().done).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
  await first.close()
  vi.stubEnv('ONCEISH_TEST_ROTATED', 'the new key')
  const second = await open()
  await clock.runUntil(second.startWorker({ drain: { horizonMs: 3_600_000 } }).done)
  const { state, reason, outlook } = (await second.get(requestId)) ?? {}
  await second.close()
  vi.unstubAllEnvs()
  return { state, reason, why: outlook?.why, effects: api.effects.length }
}

test('with an account it is replayed under its key; without, it is held, and what is said names the account key', async () => {
  expect(await rotated({ account: 'example-prod' })).toMatchObject({ state: 'submitted', effects: 1 })
  expect(await rotated({})).toEqual({
    state: 'held',
    reason: 'account_changed',
    why: sayReason('account_changed'),
    effects: 1,
  })
  expect(sayReason('account_changed')).toMatch(/another account or origin.*`account` of the target/)
})
