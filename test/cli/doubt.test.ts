// Doubt as a person meets it: what is shown of it, the commands that are offered, and what they do.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { openOnceish } from '../../src/index.ts'
import { type Api, configFor, startApi } from '../support/api.ts'
import { linesOf, type Workspace, workspace } from '../support/run-cli.ts'
import { waitFor } from '../support/wait-for.ts'

let api: Api

beforeAll(async () => {
  api = await startApi()
})

afterAll(() => api.stop())

/** In this process, which is quicker than a command. */
async function inside<T>(
  { folder }: Workspace,
  work: (once: Awaited<ReturnType<typeof openOnceish>>) => Promise<T>,
): Promise<T> {
  const once = await openOnceish({ config: await loadConfig({ file: `${folder}/onceish.config.json` }) })
  try {
    return await work(once)
  } finally {
    await once.close()
  }
}

/** A busy machine must not make a cut answer look like none. */
const TIMES = { submit: { timeoutMs: 20_000 } }
const PATIENT = {
  worker: { leaseMs: 25_000 },
  targets: { messages: TIMES, renders: { ...TIMES, idempotency: { margin: '1m' } }, parcels: TIMES },
}

/** Requests whose calls meet these faults, worked until nothing is owed. */
async function worked(requests: readonly (readonly [target: string, fault?: string])[]): Promise<Workspace> {
  const space = workspace(configFor(api.origin, PATIENT))
  await inside(space, async (once) => {
    for (const [target, fault] of requests) {
      const payload = { n: Math.random(), to: '+1', from: '+2', body: 'x', ...(fault && { fault }) }
      await once.enqueue({ target, payload })
    }
    await once.startWorker({ drain: { horizonMs: 60_000 } }).done
  })
  return space
}

/** As a shell would take it. */
const words = (command: string) => command.split(' ').slice(1)

test('held requests: why, how old, and commands that do what they say when they are pasted', async () => {
  const space = await worked([['messages', 'reset_after'], ['messages', 'cut'], ['renders']])
  const { stdout } = await space.cli(['list', '--state', 'held'])
  expect(stdout).toMatch(/^ +1 +messages +held .*(?:now|ago) .*opaque: /m)
  expect(stdout).toContain('messages (2), opaque: the API can be asked nothing, and nothing can be repeated safely')
  expect(stdout).toMatch(/^ {2}onceish resolve 1 --if-version \d+ --not-executed +it did not happen/m)
  // An answer began: it happened.
  expect(stdout).not.toMatch(/resolve 2 .*--not-executed/)
  const all = /^ {2}onceish (resolve --target messages --reason opaque .* --dry-run)$/m.exec(stdout)?.[1] ?? ''
  expect((await space.cli(all.split(' '))).stdout).toMatch(/nothing was changed \(--dry-run\)\n$/)
  const listed = linesOf((await space.cli(['list', '--reason', 'opaque', '--json', '--store', 'onceish.db'])).stdout)
  expect(listed).toMatchObject([
    { requestId: 1, reason: 'opaque', inDoubtSince: expect.any(Number), next: expect.any(Array) },
    { requestId: 2 },
  ])
  const { next } = listed[0] as { next: string[] }
  expect(next).toHaveLength(4)
  const command = next.find((text) => text.includes('--abandon')) ?? ''
  expect(command).toMatch(/^onceish resolve 1 --if-version \d+ --abandon --store onceish\.db$/)
  expect(await space.cli(words(command))).toMatchObject({ code: 0, stdout: 'request 1 is dead\n' })
  const done = await space.cli(words(command))
  expect(done).toMatchObject({ code: 0, stdout: 'request 1 is dead already: nothing was changed\n' })
})

test('a word for many: by filter first dry, then done, then nothing left; by ids with what was refused', async () => {
  const space = await worked([
    ['messages', 'reset_after'],
    ['messages', 'reset_after'],
    ['messages', 'cut'],
  ])
  const all = ['resolve', '--target', 'messages', '--reason', 'opaque', '--not-executed', '--force', '--note', 'lost']
  const dry = await space.cli([...all, '--dry-run'])
  expect(dry.code).toBe(1)
  expect(dry.stdout).toBe(
    'request 1 of messages: held -> ready\nrequest 2 of messages: held -> ready\n' +
      '3 requests: 2 would change, 1 refused; nothing was changed (--dry-run)\n',
  )
  expect(dry.stderr).toBe('request 3 of messages is held: an answer showed that it happened\n')
  const done = await space.cli([...all, '--json'])
  expect(done.code).toBe(1)
  expect(linesOf(done.stdout)).toMatchObject([
    { requestId: 1, from: 'held', state: 'ready', result: 'applied', why: null },
    { requestId: 2, result: 'applied' },
    { requestId: 3, state: 'held', result: 'refused', why: 'an answer showed that it happened' },
    { summary: { applied: 2, unchanged: 0, refused: { refused: 1, versionChanged: 0, notFound: 0 }, dryRun: false } },
  ])
  const abandoned = await space.cli(['resolve', '1', '3', '99', '--abandon'])
  expect(abandoned.code).toBe(1)
  expect(abandoned.stdout).toContain('request 3 of messages: held -> dead\n')
  expect(abandoned.stderr).toBe(
    'request 99: there is no such request\nrequest 1 of messages is ready: ready requests are not in doubt\n',
  )
  const again = await space.cli(all)
  expect(again).toMatchObject({ code: 0, stdout: 'no request fits: nothing was changed\n' })
})

test('a word that does not say which requests, or says for many what is of one, is a usage error', async () => {
  const { cli } = workspace(configFor(api.origin))
  const cases: [args: string[], why: string][] = [
    [['resolve', '--not-executed'], 'say which requests'],
    [['resolve', '1', '2', '--task-id', 'T'], 'give one id'],
    [['resolve', '--target', 'messages', '--task-id', 'T'], 'give one id'],
    [['resolve', '1', '2', '--abandon', '--if-version', '3'], 'give one id'],
    [['resolve', '--state', 'dead', '--abandon'], 'held, unknown'],
    [['retry'], 'say which requests'],
  ]
  const ends = await Promise.all(cases.map(async ([args, why]) => ({ ...(await cli(args)), why })))
  for (const { code, stderr, why } of ends)
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(why) })
})

test("show tells the story of calls, lookups and a person's word, and ends with what comes next", async () => {
  const space = await worked([['renders'], ['renders', 'cut'], ['parcels', 'cut'], ['messages', 'reset_after']])
  const kindsOf = async (id: number) => (await inside(space, (once) => once.get(id)))?.timeLine.map(({ kind }) => kind)
  expect(await kindsOf(1)).toEqual(['enqueued', 'called', 'submitted'])
  expect(await kindsOf(2)).toEqual(['enqueued', 'called', 'unknown', 'replay', 'submitted'])
  expect((await kindsOf(3))?.filter((kind) => kind !== 'asked_later')).toEqual([
    'enqueued',
    'called',
    'unknown',
    'submitted',
  ])
  const held = await space.json<{ next: string[] }>(['show', '4'])
  expect(held).toMatchObject({
    timeLine: [
      { kind: 'enqueued', to: 'ready' },
      {
        kind: 'called',
        from: 'ready',
        to: 'invoking',
        attempt: 1,
        fingerprint: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
      { kind: 'unknown', from: 'invoking', to: 'unknown', evidence: { phase: 'unanswered' } },
      { kind: 'held', from: 'unknown', to: 'held', reason: 'opaque' },
    ],
    outlook: { by: 'person', step: 'word' },
    events: expect.any(Array),
  })
  expect(held.next).toHaveLength(4)
  await space.cli(['resolve', '4', '--not-executed', '--force', '--note', 'not in their log', '--actor', 'ada'])
  await space.cli(['pause', 'messages', '--reason', 'night'])
  const { stdout } = await space.cli(['show', '4'])
  expect(stdout).not.toContain('queued ->')
  expect(stdout).toMatch(/resolved +held -> ready +1 +ada .*a person said that it did not happen "not in their log"/)
  expect(stdout).toMatch(
    /next:\n +what +waits until its target is resumed\n +why +its target is paused by cli:.*: night/,
  )
  expect(stdout).toMatch(/onceish resume messages +the reason for the pause is gone/)
})

test('orphans are listed with their evidence and their commands, and leave by a word', async () => {
  const space = await worked([['messages']])
  // A second effect as a late answer brings it to light: the first task is known, and a person has called anew.
  await inside(space, async (once) => {
    const { requestId } = await once.enqueue({ target: 'parcels', payload: { n: Math.random(), fault: 'slow:600' } })
    const worker = once.startWorker({ drain: { horizonMs: 60_000 } })
    await waitFor(async () => (await once.get(requestId))?.state === 'invoking', { what: 'the call' })
    await once.cancel(requestId)
    await worker.stop()
    await once.resolve(requestId, { kind: 'retry_accepting_duplicates' }, { force: true })
    await once.startWorker({ drain: { horizonMs: 60_000 } }).done
  })
  const listed = await space.cli(['orphans'])
  expect(listed.stdout).toMatch(
    /^orphan 1: the API made task prc_\S+ \(answered HTTP 201.*\); request 2 is submitted and has task prc_/m,
  )
  expect((await space.cli(['status'])).stdout).toMatch(/1 orphan: tasks beyond .* onceish orphans$/m)
  const [orphan] = linesOf((await space.cli(['orphans', '--json'])).stdout) as { taskId: string; next: string[] }[]
  const adopt = orphan?.next.find((text) => text.includes('adopt')) ?? ''
  expect(await space.cli(words(adopt))).toMatchObject({
    code: 0,
    stdout: `orphan 1 is the task of request 2, which is submitted: ${orphan?.taskId}\n`,
  })
  expect((await space.cli(['orphans', 'dismiss', '2', '--note', 'sent back'])).code).toBe(0)
  expect((await space.cli(['orphans'])).stdout).toBe('no orphans\n')
  expect(await space.cli(['orphans', 'dismiss', '2'])).toMatchObject({
    code: 0,
    stdout: 'orphan 2 was dealt with before: nothing was changed\n',
  })
  expect((await space.cli(['orphans', 'dismiss', '9'])).stderr).toMatch(/^error ORPHAN_NOT_FOUND: /)
  // Each is told, whatever became of the others.
  const both = await space.cli(['orphans', 'dismiss', '9', '2'])
  expect(both).toMatchObject({ code: 1, stderr: expect.stringContaining('ORPHAN_NOT_FOUND') })
  expect(both.stdout).toContain('orphan 2 was dealt with before')
})
