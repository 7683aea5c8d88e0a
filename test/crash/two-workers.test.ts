import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Api, configFor, startApi } from '../support/api.ts'
import { openShop } from '../support/cli.ts'
import { waitFor } from '../support/wait-for.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

test('two workers on one file share 2,000 requests; none is called twice and nobody sees a busy database', async () => {
  // Times that a busy machine cannot exceed: no call ends in doubt here.
  const renders = { submit: { timeoutMs: 30_000 }, idempotency: { margin: '31s' }, retry: { maxAttempts: 2 } }
  const worker = { concurrency: 32, leaseMs: 40_000, graceMs: 1000 }
  const shop = openShop(configFor(api.origin, { worker, targets: { renders } }))
  const lines = Array.from({ length: 2000 }, (_, n) => JSON.stringify({ payload: { n: `shared-${n}` } }))
  shop.write('jobs.ndjson', lines.join('\n'))
  expect(await shop.json('enqueue', '--target', 'renders', '--file', 'jobs.ndjson')).toMatchObject({ enqueued: 2000 })
  const workers = [shop.start('work', '--drain', '--json'), shop.start('work', '--drain', '--json')]
  const ended = await Promise.all(workers.map((worker) => worker.ended))
  expect(ended.map(({ code, stderr }) => ({ code, stderr }))).toEqual([
    { code: 0, stderr: '' },
    { code: 0, stderr: '' },
  ])
  const shares = ended.map(({ stdout }) => (JSON.parse(stdout) as { calls: number }).calls)
  expect(shares.every((calls) => calls > 0)).toBe(true)
  const called = (await api.oracle()).calls.filter((call) => String(call.n).startsWith('shared-'))
  expect(called).toHaveLength(2000)
  expect(new Set(called.map((call) => call.n)).size).toBe(2000)
  expect((await shop.json<{ states: object }>('status')).states).toEqual({ submitted: 2000 })
}, 120_000)

test('a worker that was stopped beyond its lease and continued settles what waited for its answer alone, and changes nothing else', async () => {
  const shop = openShop(configFor(api.origin, { worker: { concurrency: 4, leaseMs: 1500, graceMs: 1000 } }))
  await shop.run('enqueue', '--target', 'messages', '--payload', '{"n":"stopped-opaque","fault":"slow:600"}')
  await shop.run('enqueue', '--target', 'renders', '--payload', '{"n":"stopped-keyed","fault":"slow:600"}')
  const mine = async () => (await api.oracle()).effects.filter((effect) => String(effect.n).startsWith('stopped-'))
  const stopped = shop.start('work')
  await waitFor(async () => (await mine()).length === 2, { what: 'both effects' })
  stopped.kill('SIGSTOP')
  const other = await shop.start('work', '--drain').ended
  expect(other.code).toBe(3)
  const before = await shop.lines('list')
  expect(before).toMatchObject([{ state: 'held', reason: 'opaque' }, { state: 'submitted' }])
  stopped.kill('SIGCONT')
  // It is alive again when it takes new work; what it had to say of its old calls it has said by then.
  await shop.run('enqueue', '--target', 'renders', '--payload', '{"n":"after"}')
  await waitFor(async () => (await shop.json<{ states: { submitted: number } }>('status')).states.submitted === 3, {
    what: 'new work to be done',
  })
  stopped.kill('SIGTERM')
  expect((await stopped.ended).code).toBe(143)
  const [message, render] = await shop.lines('list')
  const sent = (await mine()).find(({ kind }) => kind === 'messages')
  // Its answer had come while it stood still.
  expect(message).toMatchObject({ state: 'submitted', taskId: sent?.taskId })
  expect(render).toEqual(before[1])
  expect(await mine()).toHaveLength(2)
})

test('six processes start at once on an empty folder: all enqueue, the schema is made once', async () => {
  const shop = openShop(configFor(api.origin))
  const payload = '{"n":"same"}'
  const ended = await Promise.all(
    Array.from({ length: 6 }, () => shop.run('enqueue', '--target', 'renders', '--payload', payload, '--json')),
  )
  expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0, 0])
  const answers = ended.map(({ stdout }) => JSON.parse(stdout) as { requestId: number; deduplicated: boolean })
  expect(new Set(answers.map(({ requestId }) => requestId)).size).toBe(1)
  expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1)
})

test('a second signal ends the worker at once', async () => {
  const shop = openShop(configFor(api.origin, { worker: { leaseMs: 1500, graceMs: 60_000 } }))
  await shop.run('enqueue', '--target', 'messages', '--payload', '{"n":"twice","fault":"slow:800"}')
  const worker = shop.start('work')
  await waitFor(async () => (await api.oracle()).calls.some((call) => call.n === 'twice'), { what: 'the call' })
  worker.kill('SIGINT')
  worker.kill('SIGINT')
  expect((await worker.ended).code).toBe(130)
})
