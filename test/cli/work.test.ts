// Work, recover, signals, and a person's word, against the sample API.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Api, configFor, startApi } from '../support/api.ts'
import { ended, linesOf, NOWHERE, startCli, type Workspace, workspace } from '../support/run-cli.ts'
import { waitFor } from '../support/wait-for.ts'

let api: Api
let lastN = 0

beforeAll(async () => {
  api = await startApi()
})

afterAll(() => api.stop())

async function enqueue({ json }: Workspace, target: string, fault?: string): Promise<number> {
  lastN++
  const payload = JSON.stringify({ n: lastN, to: '+1', from: '+2', body: 'x', fault })
  return (await json<{ requestId: number }>(['enqueue', '--target', target, '--payload', payload])).requestId
}

describe('work --drain', () => {
  test('it ends when all is done, and reports in one JSON document', async () => {
    const space = workspace(configFor(api.origin))
    for (const target of ['executions', 'renders', 'parcels', 'messages']) await enqueue(space, target)
    const { code, stdout } = await space.cli(['work', '--drain', '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toEqual({
      states: { submitted: 4 },
      calls: 4,
      adopted: 0,
      replayed: 0,
      requeued: 0,
      held: 0,
      stuck: 0,
      ms: expect.any(Number),
      counters: expect.objectContaining({ turns: expect.any(Number), storeBusy: 0, storeFull: 0, stalls: 0 }),
    })
    const views = linesOf((await space.cli(['list', '--json'])).stdout)
    for (const view of views) expect(view).toMatchObject({ state: 'submitted', taskId: expect.stringMatching(/./) })
  })

  test('a request that needs a person makes the exit code 3, and the next command is named', async () => {
    const space = workspace(configFor(api.origin))
    const id = await enqueue(space, 'messages', 'cut')
    const { code, stdout } = await space.cli(['work', '--drain'])
    expect(code).toBe(3)
    expect(stdout).toMatch(/^held +1$/m)
    expect(stdout).toMatch(/1 held: say what happened +onceish list --state held/)
    const listed = (await space.cli(['list', '--state', 'held'])).stdout
    const hint =
      new RegExp(`^  onceish (resolve ${id} --if-version \\d+ --task-id) '<task id>'`, 'm').exec(listed)?.[1] ?? ''
    expect((await space.cli(['show', String(id)])).stdout).toMatch(
      /next:[\s\S]*--task-id '<task id>'[\s\S]*--retry-accepting-duplicates[\s\S]*--abandon/,
    )
    const word = [...hint.split(' '), '9007199254740993', '--actor', 'ada', '--note', 'seen', '--json']
    const resolved = await space.cli(word)
    expect(resolved.code).toBe(0)
    expect(JSON.parse(resolved.stdout)).toMatchObject({
      requestId: id,
      result: 'applied',
      state: 'submitted',
      taskId: '9007199254740993',
    })
    expect(await space.json(['show', String(id)])).toMatchObject({
      events: expect.arrayContaining([expect.objectContaining({ kind: 'resolved', actor: 'ada' })]),
    })
  })

  test('rows of paused targets need a person; other targets do not, where only some are served', async () => {
    const space = workspace(configFor(api.origin))
    await enqueue(space, 'messages')
    await space.cli(['pause', 'messages'])
    expect((await space.cli(['work', '--drain', '--json'])).code).toBe(3)
    expect((await space.cli(['work', '--drain', '--targets', 'renders', '--json'])).code).toBe(0)
  })

  test('what is due beyond the horizon is not waited for', async () => {
    const space = workspace(configFor(api.origin))
    const runAt = String(Date.now() + 3_000_000)
    await space.json(['enqueue', '--target', 'messages', '--payload', '{}', '--run-at', runAt])
    const { code, stdout } = await space.cli(['work', '--drain', '--drain-horizon', '10m', '--json'])
    expect({ code, states: JSON.parse(stdout).states }).toEqual({ code: 0, states: { scheduled: 1 } })
  })
})

describe('signals', () => {
  test.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)('%s stops a worker cleanly and ends with %i', async (signal, code) => {
    const space = workspace(configFor(api.origin))
    const id = await enqueue(space, 'messages')
    const worker = startCli(space.folder, ['work', '--json'])
    const end = ended(worker)
    await waitFor(async () => (await space.json(['show', String(id)]))['state'] === 'submitted', {
      what: 'the submission',
      timeoutMs: 15_000,
    })
    worker.kill(signal)
    const { code: exit, stdout } = await end
    expect(exit).toBe(code)
    expect(JSON.parse(stdout)).toMatchObject({ states: { submitted: 1 }, calls: 1 })
  })

  test('a call in flight is waited for; a second signal is not', async () => {
    const space = workspace(
      configFor(api.origin, {
        worker: { leaseMs: 61_000, graceMs: 60_000 },
        targets: { messages: { submit: { timeoutMs: 60_000 } } },
      }),
    )
    await enqueue(space, 'messages', 'slow:60000')
    const worker = startCli(space.folder, ['work', '--json'])
    const end = ended(worker)
    await waitFor(async () => 'invoking' in (await space.json<{ states: object }>(['status'])).states, {
      what: 'the call',
      timeoutMs: 15_000,
    })
    // Whoever starts beside it is told of a call that is out, and of nobody's death.
    const beside = startCli(space.folder, ['work'])
    const besideEnd = ended(beside)
    let said = ''
    beside.stderr.setEncoding('utf8').on('data', (text) => (said += text))
    await waitFor(() => said.includes('\n'), { what: 'its first line', timeoutMs: 15_000 })
    beside.kill('SIGTERM')
    expect(said).toMatch(/^1 call of other workers out; those of one that died are looked into within 61s$/m)
    await besideEnd
    worker.kill('SIGTERM')
    // Signals of one kind that are pending together are one: the second is sent until it was heard.
    const again = setInterval(() => worker.kill('SIGTERM'), 100)
    const { code, stdout } = await end
    clearInterval(again)
    expect({ code, stdout }).toEqual({ code: 143, stdout: '' })
  })
})

describe('recover', () => {
  test('the dry run says what and why, and recover does it', async () => {
    const space = workspace(configFor(api.origin))
    const id = await enqueue(space, 'renders', 'cut')
    const worker = startCli(space.folder, ['work', '--json'])
    const end = ended(worker)
    const state = async () => (await space.json(['show', String(id)]))['state']
    await waitFor(async () => ['unknown', 'invoking', 'submitted'].includes(String(await state())), {
      what: 'the call',
      timeoutMs: 15_000,
    })
    worker.kill('SIGKILL')
    await end
    const dry = await space.cli(['recover', '--dry-run', '--json'])
    expect(dry.code).toBe(0)
    for (const line of linesOf(dry.stdout)) {
      expect(line).toMatchObject({
        requestId: id,
        target: 'renders',
        would: expect.stringMatching(/replay|wait|later/),
        why: expect.any(String),
      })
    }
    const { code, stdout } = await space.cli(['recover', '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ states: { submitted: 1 }, held: 0 })
    const { effects } = await api.oracle()
    expect(effects.filter(({ n }) => n === lastN)).toHaveLength(1)
  })

  test('with nothing in doubt it calls nothing, also not what is ready', async () => {
    const space = workspace(configFor(NOWHERE))
    await enqueue(space, 'messages')
    const { code, stdout } = await space.cli(['recover', '--json'])
    expect({ code, report: JSON.parse(stdout) }).toMatchObject({ code: 0, report: { states: { ready: 1 }, calls: 0 } })
    expect((await space.cli(['recover', '--dry-run'])).stdout).toBe('recovery has nothing to look into\n')
  })
})

describe('dead requests', () => {
  test('retry queues them again', async () => {
    const space = workspace(configFor(api.origin))
    const id = await enqueue(space, 'messages', '400')
    expect((await space.cli(['work', '--drain', '--json'])).code).toBe(3)
    const { code, stdout } = await space.cli(['retry', String(id), '--json'])
    expect({ code, told: JSON.parse(stdout) }).toMatchObject({
      code: 0,
      told: { requestId: id, result: 'applied', state: 'ready' },
    })
  })
})

test('a row in doubt whose target left the config is told by status, by recover and by a dry run', async () => {
  const space = workspace(configFor(api.origin))
  await space.cli(['enqueue', '--target', 'renders', '--payload', '{"n":"left","fault":"hang_after"}'])
  const worker = startCli(space.folder, ['work'])
  const end = ended(worker)
  await waitFor(async () => (await api.oracle()).effects.some((effect) => effect.n === 'left'), { what: 'the effect' })
  worker.kill('SIGKILL')
  await end
  space.write('onceish.config.json', JSON.stringify(configFor(api.origin, { targets: { renders: undefined } })))
  expect((await space.json<{ unroutable: number }>(['status'])).unroutable).toBe(1)
  const dry = linesOf((await space.cli(['recover', '--dry-run', '--json'])).stdout)
  expect(dry).toMatchObject([{ requestId: 1, would: 'wait', why: 'the config names no such target' }])
  expect((await space.cli(['recover'])).code).toBe(3)
})
