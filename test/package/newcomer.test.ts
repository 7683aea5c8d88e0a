// What a newcomer does with the tarball in an empty folder, with the effects counted at the API.
import { expect, test, vi } from 'vitest'
import { type Installed, install } from '../support/installed.ts'
import { startJobsApi } from '../support/jobs-api.ts'
import { waitFor } from '../support/wait-for.ts'

const CONFIG = 'onceish.config.yaml'
const REQUESTS = 60

// A dozen processes and a compiler, on whatever machine.
vi.setConfig({ testTimeout: 120_000 })

async function status(place: Installed): Promise<{ states: Record<string, number>; targets: object }> {
  return JSON.parse(await place.run('onceish', 'status', '--json'))
}

test('one URL edited, killed in mid-run, recovered: every request has its effect, and one', async () => {
  const place = install()
  const api = await startJobsApi()
  await place.run('npx', 'onceish', 'init')
  place.edit(CONFIG, 'https://api.example.com/v1/jobs\n', `${api.origin}/v1/jobs\n`)
  // The template's times would do as well, but the dead worker's lease would be waited for a whole minute.
  place.edit(CONFIG, 'leaseMs: 60000', 'leaseMs: 1500')
  place.edit(CONFIG, 'timeoutMs: 30000', 'timeoutMs: 900')
  expect(await place.run('onceish', 'targets')).toContain('example')
  await place.run('onceish', 'enqueue', '--target', 'example', '--payload', '{"n":0}')
  const lines = Array.from({ length: REQUESTS - 1 }, (_, i) => JSON.stringify({ payload: { n: i + 1 } }))
  place.write('jobs.ndjson', lines.join('\n'))
  await place.run('onceish', 'enqueue', '--target', 'example', '--file', 'jobs.ndjson')

  api.holdAfter(REQUESTS / 3)
  const worker = place.start('onceish', 'work')
  await waitFor(() => api.effects.length > REQUESTS / 2, { what: 'half of the effects', timeoutMs: 30_000 })
  worker.kill('SIGKILL')
  expect((await worker.ended).signal).toBe('SIGKILL')
  const { invoking = 0, unknown = 0 } = (await status(place)).states
  expect(invoking + unknown).toBeGreaterThan(0)
  api.release()

  await place.run('onceish', 'recover')
  await place.run('onceish', 'work', '--drain')
  expect((await status(place)).states).toEqual({ submitted: REQUESTS })
  expect(await place.run('npx', 'onceish', 'status')).toMatch(/submitted.*\nexample +60 /)
  const done = api.effects.map(({ body }) => (JSON.parse(body) as { n: number }).n)
  expect(done.sort((a, b) => a - b)).toEqual(Array.from({ length: REQUESTS }, (_, n) => n))
})

const PROGRAM = `
import { type Enqueued, isOnceishError, loadConfig, type Onceish, openOnceish, type StoreStatus } from 'onceish'

const once: Onceish = await openOnceish({ config: await loadConfig() })
const first: Enqueued = await once.enqueue({ target: 'example', payload: { n: 1 }, priority: 5 })
const second = await once.enqueue({ target: 'example', payload: { n: 1 } })
const refused = await once.enqueue({ target: 'exmaple', payload: 1 }).catch((error: unknown) => error)
const worker = await once.startWorker({ drain: { horizonMs: 1000 } })
const report = await worker.done
// @ts-expect-error: the declarations really reach this program
const wrong: string = report.calls
const { states }: StoreStatus = await once.status()
const { taskId = null } = (await once.get(first.requestId)) ?? {}
await once.close()
process.stdout.write(
  JSON.stringify({
    same: first.requestId === second.requestId,
    deduplicated: second.deduplicated,
    code: isOnceishError(refused) ? refused.code : null,
    calls: wrong,
    states,
    taskId,
  }),
)
`

test('a strict TypeScript program compiles against it, its declarations checked, and runs', async () => {
  const place = install()
  const api = await startJobsApi()
  await place.run('onceish', 'init')
  place.edit(CONFIG, 'https://api.example.com/v1/jobs\n', `${api.origin}/v1/jobs\n`)
  place.write('program.ts', PROGRAM)
  expect(await place.compile()).toMatchObject({ code: 0, stdout: '' })
  expect(JSON.parse(await place.run(process.execPath, 'program.js'))).toEqual({
    same: true,
    deduplicated: true,
    code: 'TARGET_UNKNOWN',
    calls: 1,
    states: { submitted: 1 },
    taskId: 'job-1',
  })
  expect(api.effects).toEqual([{ path: '/v1/jobs', body: '{"n":1}' }])
})
