// Plain JavaScript: a word, an option or a filter that nobody knows is refused by its name, and changes nothing.
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { copyStore, defineTarget, diagnose, loadConfig, openOnceish, undoCopy } from '../../src/index.ts'
import { openStore } from '../../src/store/open-store.ts'
import { newLocation } from '../support/engine.ts'
import { OPAQUE, openWorld } from '../support/store.ts'
import { tempDir } from '../support/temp-dir.ts'

/** As JavaScript has it. */
// biome-ignore lint/suspicious/noExplicitAny: whatever a caller without types may say
type Plain = any

/** One request is held, one ready, one dead. */
async function openWithDoubt() {
  const store = newLocation()
  const invoked: number[] = []
  const target = defineTarget({
    name: 'opaque',
    version: '1',
    payload: z.object({ n: z.number() }),
    policy: { breaker: false },
    invoke: ({ payload }) => {
      invoked.push(payload.n)
      throw new Error('nobody knows')
    },
  })
  const once: Plain = await openOnceish({ store, targets: [target] })
  onTestFinished(() => once.close())
  await once.enqueue({ target: 'opaque', payload: { n: 1 } })
  await once.startWorker({ drain: { horizonMs: 1000 } }).done
  await once.enqueue({ target: 'opaque', payload: { n: 2 } })
  expect(await once.get(1)).toMatchObject({ state: 'held' })
  return { once, invoked, store }
}

const NO_WORDS: readonly (readonly [word: unknown, said: RegExp])[] = [
  ['task_id', /no "task_id".*kind: 'task_id', taskId/],
  [undefined, /no undefined/],
  [null, /no null/],
  [{ kind: 'executed', taskId: 'x' }, /no kind "executed".*not_executed/],
  [{ kind: 'taskId' }, /no kind "taskId"; did you mean "task_id"/],
  [{ kind: 'not-executed' }, /did you mean "not_executed"/],
  [{ word: 'not_executed' }, /no kind undefined/],
  [{ kind: ['not_executed'] }, /no kind a list/],
  [{ kind: 'not_executed', taskId: 'x' }, /not_executed has no "taskId"/],
  [{ kind: 'task_id' }, /taskId is text .*not undefined/],
  [{ kind: 'task_id', taskId: 17 }, /taskId is text .*not 17/],
  [{ kind: 'task_id', taskId: '' }, /taskId is text/],
]

test('a word on a request in doubt that is none changes nothing and leads to no call', async () => {
  const { once, invoked } = await openWithDoubt()
  const before = await once.get(1)
  for (const [word, said] of NO_WORDS) {
    const refused = { code: 'REQUEST_INVALID', message: expect.stringMatching(said) }
    await expect(once.resolve(1, word, { force: true })).rejects.toMatchObject(refused)
    await expect(once.resolveWhere({ state: 'held' }, word, { force: true })).rejects.toMatchObject(refused)
    await expect(once.resolveWhere({ ids: [1] }, word, { force: true })).rejects.toMatchObject(refused)
  }
  expect(await once.get(1)).toEqual(before)
  expect(invoked).toEqual([1])
})

test('an unknown word is a broken invariant beneath the edge, too', async () => {
  const { store, turn, enqueue } = await openWorld({ policies: { opaque: OPAQUE } })
  onTestFinished(() => store.close())
  const { requestId } = await enqueue(1, { target: 'opaque' })
  await turn({ slots: 1 })
  const word = { now: 9_000_000, actor: 'a', note: null, ifVersion: null }
  await turn({ now: () => 9_000_000 })
  const how = { force: true, policyOf: () => OPAQUE }
  const broken = { code: 'INVARIANT_BROKEN' }
  await expect(store.resolve(requestId, { kind: 'executed' } as Plain, word, how)).rejects.toMatchObject(broken)
  expect(await store.get(requestId)).toMatchObject({ state: 'unknown' })
})

const MISTAKEN: readonly ((once: Plain) => Promise<unknown>)[] = [
  (once) => once.resolve(1, { kind: 'not_executed' }, { dryRun: true }),
  (once) => once.resolve(1, { kind: 'abandon' }, { ifversion: 9 }),
  (once) => once.resolve(1, { kind: 'abandon' }, { ifVersion: '9' }),
  (once) => once.resolve(1, { kind: 'abandon' }, 'a note'),
  (once) => once.resolveWhere({ state: 'held' }, { kind: 'abandon' }, { dryrun: true }),
  (once) => once.resolveWhere({ state: 'held' }, { kind: 'abandon' }, { dryRun: 'no' }),
  (once) => once.resolveWhere({ state: 'held', traget: 'x' }, { kind: 'abandon' }),
  (once) => once.resolveWhere({ state: 'held', target: undefined }, { kind: 'abandon' }),
  (once) => once.resolveWhere({ state: 'hold' }, { kind: 'abandon' }),
  (once) => once.resolveWhere({ ids: 1 }, { kind: 'abandon' }),
  (once) => once.resolveWhere([1], { kind: 'abandon' }),
  (once) => once.retry(1, { expiresAfter: 1 }),
  (once) => once.retryWhere({ target: 'opaque' }, { dry: true }),
  (once) => once.reprioritize(2, 5, { dryRun: true }),
  (once) => once.reprioritizeWhere({ state: 'ready', group: undefined }, 5),
  (once) => once.cancel(2, { dryRun: true }),
  (once) => once.cancelWhere({ state: 'ready', id: 1 }),
  (once) => once.cancelWhere({ target: 'opaque' }, { dry_run: true }),
  (once) => once.cancelWhere({ target: null, state: 'ready' }),
  (once) => once.adoptOrphan(1, { force: true }),
  (once) => once.dismissOrphan(1, { notes: 'x' }),
  (once) => once.purge({ olderThanMs: 0, dryrun: true }),
  (once) => once.purge({ olderThanMs: 0, target: ['x'] }),
  (once) => once.purge({ olderThanMs: 0, targets: 'x' }),
  (once) => once.purge({ olderThanMs: 0, dryRun: 'yes' }),
  (once) => once.declareRestored({ force: true, dryrun: true }),
  (once) => once.list({ stat: 'held' }),
  (once) => once.list({ state: 'hold' }),
  (once) => once.list({ limit: -1 }),
  (once) => once.orphans(-1),
  (once) => once.pause({ target: 'opaque' }),
  (once) => once.resume(undefined),
  (once) => once.recover({ dryRun: true }),
  async (once) => once.startWorker({ target: ['opaque'] }),
  async (once) => once.startWorker({ targets: 'opaque' }),
  async (once) => once.startWorker({ drain: true }),
  (once) => once.waitFor(1, { until: 'succeeded' }),
  (once) => once.waitFor(1, { timeout: 5 }),
  async (once) => once.events({ after: 5 }),
  (once) => once.enqueueLines([], { onError: 'ignore' }),
  (once) => once.enqueueLines([], { onerror: 'skip' }),
]

test('an option, a filter or a name that nobody knows is refused, and nothing is done', async () => {
  const { once, invoked } = await openWithDoubt()
  for (const say of MISTAKEN) await expect(say(once), String(say)).rejects.toMatchObject({ code: 'USAGE' })
  expect(await once.list()).toMatchObject([{ state: 'held' }, { state: 'ready', priority: 0 }])
  expect(invoked).toEqual([1])
})

test('ids are whole numbers, whatever is said', async () => {
  const { once } = await openWithDoubt()
  for (const id of ['1', 1.5, null, undefined, [1], {}]) {
    const refused = { code: 'REQUEST_INVALID', message: expect.stringMatching(/id .*whole number/) }
    await expect(once.resolve(id, { kind: 'abandon' })).rejects.toMatchObject(refused)
    await expect(once.retry(id)).rejects.toMatchObject(refused)
    await expect(once.cancel(id)).rejects.toMatchObject(refused)
    await expect(once.reprioritize(id, 1)).rejects.toMatchObject(refused)
    await expect(once.adoptOrphan(id)).rejects.toMatchObject(refused)
    await expect(once.dismissOrphan(id)).rejects.toMatchObject(refused)
    await expect(once.get(id)).rejects.toMatchObject(refused)
  }
})

test('what is opened, loaded, copied and diagnosed takes no unknown option either', async () => {
  const path = join(tempDir(), 'jobs.db')
  const config = { store: path, targets: {} }
  const refused = { code: 'USAGE' }
  const plain: Plain = { openOnceish, loadConfig, copyStore, undoCopy, diagnose }
  await expect(plain.openOnceish({ config, creat: false })).rejects.toMatchObject(refused)
  await expect(plain.openOnceish({ config, create: 'no' })).rejects.toMatchObject(refused)
  await expect(plain.loadConfig({ path })).rejects.toMatchObject(refused)
  await expect(plain.copyStore({ from: path, to: path, dryRun: true })).rejects.toMatchObject(refused)
  await expect(plain.undoCopy({ from: path, to: path, forced: true })).rejects.toMatchObject(refused)
  await expect(plain.diagnose({ config, full: true })).rejects.toMatchObject(refused)
  await expect(openStore(path, { create: false, now: 1 })).rejects.toMatchObject({ code: 'STORE_NOT_FOUND' })
})
