// Groups as a person meets them: enqueued, taking turns in a real drain, shown, and moved by a word for all of one.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Api, configFor, startApi } from '../support/api.ts'
import { linesOf, type Workspace, workspace } from '../support/run-cli.ts'

let api: Api

beforeAll(async () => {
  api = await startApi()
})

afterAll(() => api.stop())

const MESSAGE = { to: '+1', from: '+2', body: 'x' }

/** Six of one customer, then two of another and one of nobody. */
async function filled(): Promise<Workspace> {
  const space = workspace(configFor(api.origin, { worker: { concurrency: 1 } }))
  const groups = [...Array(6).fill('flood'), 'small', 'small', undefined]
  const lines = groups.map((group, n) => ({
    target: 'messages',
    group,
    payload: { ...MESSAGE, n: `${space.folder}:${n}` },
  }))
  space.write('jobs.ndjson', lines.map((line) => JSON.stringify(line)).join('\n'))
  await space.json(['enqueue', '--file', 'jobs.ndjson'])
  return space
}

test('a drain calls them in turns, and status tells who waits', async () => {
  const { cli, json } = await filled()
  expect((await cli(['status'])).stdout).toMatch(
    /^target +groups +most ready +waits longest\nmessages +2 +flood 6, small 2 +flood, due /m,
  )
  expect(await json(['status'])).toMatchObject({ targets: { messages: { groups: { ready: 2 } } } })
  const { stdout } = await cli(['work', '--drain', '--json'])
  expect(JSON.parse(stdout)).toMatchObject({ states: { submitted: 9 } })
  const ids = linesOf((await cli(['list', '--json'])).stdout) as {
    requestId: number
    updatedAt: number
    taskId: string
  }[]
  const called = ids.toSorted((a, b) => a.updatedAt - b.updatedAt || Number(a.taskId > b.taskId))
  // The flood began; the two of the other customer are done within two rounds.
  expect(called.slice(0, 6).map(({ requestId }) => requestId)).toEqual(expect.arrayContaining([7, 8, 9]))
  expect((await cli(['status'])).stdout).not.toContain('most ready')
})

test('a group is listed, shown and moved whole', async () => {
  const { cli, json } = await filled()
  expect((await cli(['list', '--group', 'small'])).stdout).toMatch(/^ +7 +messages +ready .* small/m)
  expect((await cli(['show', '7'])).stdout).toMatch(/^group +small$/m)
  const moved = await cli(['reprioritize', '--group', 'small', '--priority', '4'])
  expect(moved.stdout).toMatch(/request 7 of messages: ready, priority 4\n.*8.*\n2 requests: 2 changed/)
  expect((await cli(['reprioritize', '1', '--group', 'small', '--priority', '4'])).stderr).toContain(
    'its group is flood',
  )
  expect((await cli(['list', '--group', 'nobody'])).stdout).toBe('no requests\n')
  const one = ['enqueue', '--target', 'messages', '--payload', JSON.stringify(MESSAGE), '--group']
  expect(await json([...one, 'a'])).toMatchObject({ group: 'a', deduplicated: false })
  expect((await cli([...one, 'b'])).stdout).toMatch(/was there already: ready; nothing was added, and its group is a$/m)
})

test('a customer who leaves has what is queued canceled at once, first without changing anything', async () => {
  const { cli, json } = await filled()
  const leave = ['cancel', '--group', 'small', '--note', 'left']
  expect((await cli([...leave, '--dry-run'])).stdout).toMatch(
    /request 7 of messages: ready -> canceled\n.*8.*\n2 requests: 2 would change; nothing was changed/,
  )
  expect(await cli(leave)).toMatchObject({ code: 0, stdout: expect.stringMatching(/2 requests: 2 changed$/m) })
  expect(await json(['status'])).toMatchObject({ states: { ready: 7, canceled: 2 } })
  expect(await json(['show', '8'])).toMatchObject({ events: [{ kind: 'canceled', reason: 'left' }] })
  expect((await cli(['cancel', '1', '--group', 'small'])).stderr).toContain('its group is flood')
  expect(await cli(['cancel'])).toMatchObject({ code: 2, stderr: expect.stringContaining('say which requests') })
  expect((await cli(['cancel', '--group', 'small', '--state', 'submitted'])).code).toBe(2)
})

test.each([
  ['', 2, /--group/],
  ['x'.repeat(257), 1, /group is well-formed text without NUL, not blank, of 1 to 256 bytes in UTF-8, not 257 bytes/],
])('a group that is empty or too long is refused', async (group, exits, message) => {
  const { cli } = workspace(configFor(api.origin))
  const { code, stderr } = await cli(['enqueue', '--target', 'messages', '--payload', '{}', '--group', group])
  expect([code, stderr]).toEqual([exits, expect.stringMatching(message)])
})
