// What people see of a target whose API is down: its breaker opens, a drain gives up after a failed probe, and a word closes it.
import { expect, test } from 'vitest'
import { openFakeApi } from '../support/counting-api.ts'
import { linesOf, NOWHERE, workspace } from '../support/run-cli.ts'

const DOWN = {
  submit: { url: NOWHERE },
  idempotency: { header: 'Idempotency-Key', rememberedFor: '24h' },
  taskId: '{% $response.body.id %}',
  breaker: { failures: 3, probeAfter: '100ms', maxProbeAfter: '1h' },
}

test('an API that refuses connections opens the breaker: a drain ends, status and targets say why, resume closes it', async () => {
  const { cli, json } = workspace({ targets: { renders: DOWN } })
  for (let n = 1; n <= 5; n++) await json(['enqueue', '--target', 'renders', '--payload', String(n)])
  const worked = await cli(['work', '--drain'])
  // What is left is told with its cause, and the log has said so when it happened.
  expect(worked.code).toBe(3)
  expect(worked.stdout).toMatch(/renders fails \(not_executed: ECONNREFUSED.*\(5 queued\) +onceish resume renders/)
  expect(worked.stderr).toMatch(/the calls to renders fail \(not_executed: ECONNREFUSED.*one probes at/)
  expect(worked.stderr).toMatch(/a probe of renders failed too/)
  const { targets } = await json<{ targets: Record<string, { breaker: unknown }> }>(['status'])
  expect(targets['renders']?.breaker).toEqual({
    since: expect.any(Number),
    reason: expect.stringContaining('not_executed: ECONNREFUSED'),
    probeAt: expect.any(Number),
    failedProbes: expect.any(Number),
    probe: null,
  })
  const { stdout } = await cli(['status'])
  expect(stdout).toMatch(/^renders .*breaker open$/m)
  expect(stdout).toMatch(/^renders: breaker open \(.* failed\) by not_executed: ECONNREFUSED.*; next probe /m)
  expect((await cli(['targets'])).stdout).toMatch(/state +breaker open \(.*; next probe /m)
  // It needs nobody.
  expect(stdout).toMatch(/^goes on by itself +sooner\nrenders fails /m)
  expect(stdout).not.toContain('needs a person')
  const [shown] = linesOf((await cli(['targets', '--json'])).stdout)
  expect(shown).toMatchObject({ breaker: targets['renders']?.breaker })
  expect((await cli(['resume', 'renders'])).code).toBe(0)
  expect(await json(['status'])).toMatchObject({ targets: { renders: { breaker: null } } })
})

test('refused credentials: status, targets and doctor name the steps in their order', async () => {
  const api = await openFakeApi({ kind: 'opaque' })
  api.failNext({ status: 401, body: {} })
  const messages = { submit: { url: api.url }, taskId: '{% $response.body.id %}' }
  const { cli, json } = workspace({ targets: { messages } })
  await json(['enqueue', '--target', 'messages', '--payload', '1'])
  const steps = /mend the key, restart every worker, then onceish resume messages$/m
  const worked = await cli(['work', '--drain'])
  expect(worked).toMatchObject({ code: 3, stdout: expect.stringMatching(steps) })
  expect(worked.stderr).toMatch(/messages is paused \(blocked: HTTP 401\).*then \\"onceish resume messages/)
  for (const command of ['status', 'doctor']) expect((await cli([command])).stdout).toMatch(steps)
  expect((await cli(['targets'])).stdout).toMatch(/state +paused by worker:.*; mend the key, .*resume messages"$/m)
})

test.each([
  ['true', 'expected false or { failures, rate, probeAfter, maxProbeAfter }'],
  [{ failures: 0 }, 'failures'],
  [{ rate: { share: 2, calls: 10, within: '1m' } }, 'rate.share'],
  [{ probesAfter: '1s' }, 'probeAfter'],
])('a breaker of %j is refused, with its place', async (breaker, said) => {
  const { cli } = workspace({ targets: { renders: { ...DOWN, breaker } } })
  const { code, stderr } = await cli(['targets'])
  expect(code).toBe(2)
  expect(stderr).toContain('breaker')
  expect(stderr).toContain(said)
})
