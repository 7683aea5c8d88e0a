// Ordering keys as a person meets them: enqueued, kept waiting by one that is held, shown, and freed by the command that is shown.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Api, configFor, startApi } from '../support/api.ts'
import { openFakeApi } from '../support/counting-api.ts'
import { linesOf, type Workspace, workspace } from '../support/run-cli.ts'

let api: Api

beforeAll(async () => {
  api = await startApi()
})

afterAll(() => api.stop())

const ofKey = (key: string) => ['--target', 'messages', '--ordering-key', key, '--payload']
/** As a shell would take it. */
const words = (command: string) => command.split(' ').slice(1)

/** Three of one key, whose first loses its answer. */
async function stuck(): Promise<Workspace> {
  const patient = { submit: { timeoutMs: 20_000 } }
  const space = workspace(configFor(api.origin, { worker: { leaseMs: 25_000 }, targets: { messages: patient } }))
  const line = (n: number, fault?: string) => ({
    target: 'messages',
    orderingKey: 'chat\u001b 7',
    payload: { n: `${space.folder}:${n}`, to: '+1', from: '+2', body: 'x', ...(fault && { fault }) },
  })
  space.write('jobs.ndjson', [line(1, 'reset_after'), line(2), line(3)].map((one) => JSON.stringify(one)).join('\n'))
  await space.json(['enqueue', '--file', 'jobs.ndjson'])
  return space
}

test('a drain ends behind a held request, says what waits for it, and exits as for a person', async () => {
  const { cli } = await stuck()
  const drained = await cli(['work', '--drain', '--json'])
  expect(drained.code).toBe(3)
  expect(JSON.parse(drained.stdout)).toMatchObject({ states: { held: 1, ready: 2 }, calls: 1, stuck: 2 })
  expect((await cli(['work', '--drain'])).stdout).toMatch(
    /2 requests wait for one of their ordering key that is in doubt, held or dead +onceish list --stuck$/m,
  )
})

test('status, list and show name who goes first, and the command that frees the others does', async () => {
  const { cli, json } = await stuck()
  await cli(['work', '--drain'])
  const { stdout } = await cli(['status'])
  expect(stdout).toMatch(/^messages +chat\\u001b 7 +2 +1, held \(opaque\) +(?:now|.* ago) +onceish show 1$/m)
  const behind = { requestId: 1, state: 'held', reason: 'opaque' }
  expect(linesOf((await cli(['list', '--stuck', '--json'])).stdout)).toMatchObject([
    { requestId: 2, state: 'ready', orderingKey: 'chat\u001b 7', behind: behind },
    { requestId: 3, behind: behind },
  ])
  expect((await cli(['list', '--ordering-key', 'chat\u001b 7'])).stdout).toMatch(
    /^ +3 +messages +ready .* chat\\u001b 7 +1, held \(opaque\)/m,
  )
  const shown = (await cli(['show', '3'])).stdout
  expect(shown).toMatch(/^place in line +3 of 3, behind request 1, held \(opaque\)$/m)
  expect(shown).toMatch(/why +request 1 of its ordering key goes first; it is held: the API can be asked nothing/)
  expect(shown).toContain('onceish show 1 ')
  expect((await cli(['show', '1'])).stdout).toMatch(/^place in line +first; 2 others waiting$/m)
  const status = await json<{ stuck: number; stuckKeys: { next: string[] }[] }>(['status'])
  expect(status).toMatchObject({ stuck: 2, stuckKeys: [{ followers: 2, head: behind }] })
  const give = status.stuckKeys[0]?.next.find((command) => command.includes('--abandon')) ?? ''
  expect((await cli(words(give))).code).toBe(0)
  await cli(['work', '--drain'])
  expect(linesOf((await cli(['list', '--json'])).stdout)).toMatchObject([
    { requestId: 1, state: 'dead', reason: 'abandoned' },
    { requestId: 2, state: 'submitted', behind: null },
    { requestId: 3, state: 'submitted' },
  ])
  expect(await json(['status'])).toMatchObject({ stuck: 0, stuckKeys: [] })
})

test.each([
  ['block', true],
  ['continue', false],
])('what show says of a dead request under onDead: %s', async (onDead, keepsOthers) => {
  const refusing = await openFakeApi({ kind: 'opaque' })
  refusing.failNext({ status: 400, body: {} })
  const job = { submit: { url: refusing.url }, taskId: '{% $response.body.id %}', ordering: { onDead } }
  const { cli, json } = workspace({ targets: { job } })
  for (const payload of ['1', '2'])
    await json(['enqueue', '--target', 'job', '--ordering-key', 'k', '--payload', payload])
  await cli(['work', '--drain'])
  const { stdout } = await cli(['show', '1'])
  expect(stdout).toContain('it is not wanted any more')
  expect(stdout.includes('the others of its ordering key go on')).toBe(keepsOthers)
})

test('one request is given its key on the command line; one that is there keeps the key that it has, and says so', async () => {
  const { cli, json } = workspace()
  expect(await json(['enqueue', ...ofKey('a'), '1'])).toMatchObject({ requestId: 1, orderingKey: 'a' })
  expect(await json(['enqueue', ...ofKey('b'), '1'])).toMatchObject({ deduplicated: true, orderingKey: 'a' })
  expect((await cli(['enqueue', ...ofKey('b'), '1'])).stdout).toMatch(/nothing was added, and its ordering key is a\n$/)
  await cli(['enqueue', '--target', 'messages', '--payload', '2'])
  expect((await cli(['enqueue', ...ofKey('b'), '2'])).stdout).toMatch(/and it has no ordering key\n$/)
  expect((await cli(['enqueue', ...ofKey('x'.repeat(257)), '3'])).stderr).toMatch(/256 bytes in UTF-8, not 257 bytes/)
  const lines = await cli(['enqueue', '-', '--target', 'messages', '--ordering-key', 'a'], { stdin: '{"payload":1}' })
  expect(lines).toMatchObject({ code: 2, stderr: expect.stringContaining('"orderingKey"') })
})
