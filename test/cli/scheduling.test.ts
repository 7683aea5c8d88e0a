// When a request is called, and when not any more: delays, deadlines, priorities changed after enqueue.
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { configFor } from '../support/api.ts'
import { NOWHERE, workspace } from '../support/run-cli.ts'

const MESSAGE = ['enqueue', '--target', 'messages', '--payload']
const FAR = '2999-01-01T00:00:00Z'

test('a delay is a due time, and a deadline is shown wherever the request is', async () => {
  const { json, cli } = workspace()
  const before = Date.now()
  expect(await json([...MESSAGE, '1', '--delay', '15m', '--expires-at', FAR])).toMatchObject({ state: 'scheduled' })
  const { dueAt, expiresAt } = await json<{ dueAt: number; expiresAt: number }>(['show', '1'])
  expect(dueAt).toBeGreaterThanOrEqual(before + 900_000)
  expect(dueAt).toBeLessThanOrEqual(Date.now() + 900_000)
  expect(expiresAt).toBe(Date.parse(FAR))
  expect((await cli(['show', '1'])).stdout).toMatch(/^ *expires +2999-01-01/m)
  expect((await cli(['list'])).stdout).toMatch(/due +expires/)
})

test.each([
  [['--expires-at', 'soon'], 2, /--expires-at.*ISO 8601/],
  [['--delay', '15'], 2, /--delay.*duration/],
  [['--delay', '1h', '--run-at', FAR], 2, /--run-at and --delay/],
  [['--run-at', FAR, '--expires-at', FAR], 1, /REQUEST_INVALID: expiresAt .* is not after it is due/],
  [['--expires-at', '2020-01-01T00:00:00Z'], 1, /REQUEST_INVALID: expiresAt .* is not after it is due/],
])('enqueue %j is refused', async (options, code, stderr) => {
  const { cli } = workspace()
  const ended = await cli([...MESSAGE, '1', ...options])
  expect(ended).toMatchObject({ code, stdout: '' })
  expect(ended.stderr).toMatch(stderr)
})

test('a line says its own, and one whose times do not fit is named', async () => {
  const { cli, json } = workspace()
  const lines = [
    { payload: 1, delay: '2h', expiresAt: FAR },
    { payload: 2, delay: 5000 },
    { payload: 3, runAt: FAR, expiresAt: FAR },
    { payload: 4, delay: '1h', expiresAt: Date.now() + 1000 },
    { payload: 5, delay: 'later' },
    { payload: 6, delay: '1s', runAt: FAR },
    { payload: 7, expiresAt: 'never' },
    { payload: 8, expiresAt: null },
  ]
  const stdin = lines.map((line) => JSON.stringify(line)).join('\n')
  const ended = await cli(['enqueue', '-', '--target', 'messages', '--on-error', 'skip', '--json'], { stdin })
  const report = JSON.parse(ended.stdout) as { enqueued: number; errors: { line: number; code: string }[] }
  expect(report.enqueued).toBe(3)
  expect(report.errors.map(({ line, code }) => `${line} ${code}`).sort()).toEqual(
    [3, 4, 5, 6, 7].map((line) => `${line} REQUEST_INVALID`),
  )
  expect(ended.stderr).toMatch(/^line 4: expiresAt .* is not after it is due/m)
  const stopped = await cli(['enqueue', '-', '--target', 'messages'], {
    stdin: stdin.split('\n').slice(3, 5).join('\n'),
  })
  expect(stopped).toMatchObject({ code: 1, stderr: expect.stringMatching(/line 2: delay: "later" is no duration/) })
  expect(await json(['status'])).toMatchObject({ states: { scheduled: 2, ready: 1 } })
})

test('a target can have a deadline for all, counted from when they are due; "never" is an exception', async () => {
  const { json, cli } = workspace(configFor(NOWHERE, { targets: { messages: { expiresAfter: '2h', aging: '10m' } } }))
  await json([...MESSAGE, '1', '--run-at', FAR])
  await json([...MESSAGE, '2', '--expires-at', 'never'])
  expect(await json(['show', '1'])).toMatchObject({ expiresAt: Date.parse(FAR) + 7_200_000 })
  expect(await json(['show', '2'])).toMatchObject({ expiresAt: null })
  const { stdout } = await cli(['targets'])
  expect(stdout).toMatch(/expires +2h after it is due/)
  expect(stdout).toMatch(/aging +10m of waiting are worth one step of priority/)
})

test('what expired is counted, told with the command that takes it back, and taken back with a new deadline only', async () => {
  const { json, cli, database } = workspace()
  await json([...MESSAGE, '1', '--run-at', '2998-01-01T00:00:00Z', '--expires-at', FAR])
  await json(['pause', 'messages'])
  await json([...MESSAGE, '2', '--expires-at', FAR])
  const db = new Database(database)
  for (const table of ['requests', 'expiries']) db.exec(`UPDATE ${table} SET expires_at = 1 WHERE request_id = 2`)
  db.close()
  // It ends although its target is paused; the one that is not due is not waited for.
  expect(await cli(['work', '--drain'])).toMatchObject({ code: 3 })
  expect(await json(['status'])).toMatchObject({ dead: 1, expired: 1, targets: { messages: { expired: 1 } } })
  expect((await cli(['status'])).stdout).toMatch(/1 of the dead: its deadline is over.*list --reason expired/)
  expect((await cli(['status'])).stdout).not.toContain('dead: retry')
  expect(await json(['list', '--reason', 'expired'])).toMatchObject({
    requestId: 2,
    next: ["onceish retry 2 --expires-at '<time>'", 'onceish cancel 2'],
  })
  const refused = await cli(['retry', '2'])
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(/STATE_REFUSED.*--expires-at TIME/) })
  expect((await cli(['retry', '2', '--expires-at', FAR])).stdout).toBe('request 2 is ready\n')
  expect(await json(['show', '2'])).toMatchObject({ state: 'ready', expiresAt: Date.parse(FAR) })
})

test('reprioritize by ids and by filter, first without changing anything', async () => {
  const { json, cli } = workspace()
  for (const n of [1, 2, 3]) await json([...MESSAGE, `${n}`])
  await json(['cancel', '3'])
  const filter = ['reprioritize', '--target', 'messages', '--priority', '9']
  expect((await cli([...filter, '--dry-run'])).stdout).toBe(
    'request 1 of messages: ready, priority 9\nrequest 2 of messages: ready, priority 9\n2 requests: 2 would change; nothing was changed (--dry-run)\n',
  )
  expect(await json(['show', '1'])).toMatchObject({ priority: 0, version: 0 })
  expect((await cli(['reprioritize', '1', '--priority', '9', '--note', 'vip'])).stdout).toMatch(/1 request: 1 changed/)
  expect((await cli(filter)).stdout).toMatch(
    /request 1 of messages: priority 9 already\n.*\n2 requests: 1 changed, 1 as asked already/,
  )
  const ended = await cli(['reprioritize', '3', '--priority', '9'])
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringMatching(/canceled requests are in no queue/) })
  expect(await cli(['reprioritize', '--priority', '9'])).toMatchObject({ code: 2 })
  expect(await cli(['reprioritize', '1'])).toMatchObject({ code: 2 })
  expect(await cli(['reprioritize', '1', '--priority', '40000'])).toMatchObject({ code: 2 })
})

test('status shows people how long each priority waits', async () => {
  const { json, cli } = workspace()
  await json([...MESSAGE, '1', '--priority', '5'])
  await json([...MESSAGE, '2', '--priority', '-1', '--run-at', String(Date.now() - 7_200_000)])
  const { oldestReady } = (await json<{ targets: Record<string, { oldestReady: { priority: number }[] }> }>(['status']))
    .targets['messages'] ?? { oldestReady: [] }
  expect(oldestReady.map(({ priority }) => priority)).toEqual([5, -1])
  expect((await cli(['status'])).stdout).toMatch(/messages +-1 +2h/)
})
