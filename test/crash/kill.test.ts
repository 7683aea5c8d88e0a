// A worker is really killed at each moment of a call, for all four kinds at once; effects are counted outside of it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { KINDS, type Kind } from '../../fixtures/api/ledger.ts'
import { type Api, configFor, startApi } from '../support/api.ts'
import { openShop, type Shop } from '../support/cli.ts'
import { waitFor } from '../support/wait-for.ts'

let api: Api
let lastN = 0
beforeAll(async () => {
  api = await startApi({ settings: { lagMs: 250 } })
})
afterAll(() => api.stop())

interface Listed {
  readonly requestId: number
  readonly target: Kind
  readonly state: string
  readonly taskId: string | null
  readonly reason: string | null
}

interface Case {
  readonly shop: Shop
  readonly numbers: ReadonlyMap<Kind, number>
}

/** One request of each kind, all with the same fault. */
async function openCase(fault: string): Promise<Case> {
  const shop = openShop(configFor(api.origin))
  const numbers = new Map<Kind, number>(KINDS.map((kind) => [kind, ++lastN]))
  await enqueue(
    shop,
    [...numbers].map(([target, n]) => ({ target, payload: { n, fault } })),
  )
  return { shop, numbers }
}

async function enqueue(shop: Shop, requests: readonly object[]): Promise<void> {
  shop.write('jobs.ndjson', requests.map((request) => JSON.stringify(request)).join('\n'))
  const { code, stderr } = await shop.run('enqueue', '--file', 'jobs.ndjson')
  if (code !== 0) throw new Error(stderr)
}

async function seen({ numbers }: Case) {
  const { calls, effects, running } = await api.oracle()
  const mine = (n: number | string | null) => [...numbers.values()].includes(n as number)
  return { calls: calls.filter((call) => mine(call.n)), effects: effects.filter((effect) => mine(effect.n)), running }
}

/** What must be true at the end, wherever the worker died. */
async function expectReconciled(
  one: Case,
  messages: { readonly effects: number; readonly state?: 'held' | 'submitted' },
): Promise<void> {
  const { code } = await one.shop.run('work', '--drain')
  await waitFor(async () => (await seen(one)).running === 0, { what: 'the API to be at rest' })
  const { calls, effects } = await seen(one)
  const listed = await one.shop.lines<Listed>('list')
  for (const kind of ['executions', 'renders', 'parcels'] as const) {
    const n = one.numbers.get(kind)
    const [effect, ...duplicates] = effects.filter((each) => each.n === n)
    expect(duplicates, kind).toEqual([])
    expect(
      listed.find((row) => row.target === kind),
      kind,
    ).toMatchObject({ state: 'submitted', taskId: effect?.taskId })
  }
  const renders = calls.filter((call) => call.kind === 'renders')
  expect(new Set(renders.map((call) => call.key)).size).toBe(1)
  expect(new Set(renders.map((call) => call.bodySha256)).size).toBe(1)
  const message = listed.find((row) => row.target === 'messages')
  expect(calls.filter((call) => call.kind === 'messages').length).toBeLessThanOrEqual(1)
  expect(effects.filter((effect) => effect.kind === 'messages')).toHaveLength(messages.effects)
  if (messages.state !== undefined) expect(message?.state).toBe(messages.state)
  if (message?.state === 'held') await expectEvidence(one.shop, message)
  expect(code).toBe(message?.state === 'held' ? 3 : 0)
}

async function expectEvidence(shop: Shop, message: Listed): Promise<void> {
  expect(message.reason).toBe('opaque')
  const shown = await shop.json<{
    taskState: { attempt: number }
    prepared: { url: string }
    events: { kind: string; reason: string }[]
  }>('show', String(message.requestId))
  expect(shown.taskState.attempt).toBe(1)
  expect(shown.prepared.url).toContain('/v1/messages')
  expect(shown.events.map((event) => `${event.kind}: ${event.reason}`)).toEqual([
    'unknown: lease_expired',
    'held: opaque',
  ])
}

async function killWorker(
  one: Case,
  moment: (now: Awaited<ReturnType<typeof seen>>) => boolean,
  what: string,
): Promise<void> {
  const worker = one.shop.start('work')
  await waitFor(async () => moment(await seen(one)), { what })
  worker.kill('SIGKILL')
  expect((await worker.ended).signal).toBe('SIGKILL')
}

test('killed after the claim’s commit, before the call: the opaque one was never made, and is held all the same', async () => {
  const one = await openCase('none')
  const entry = fileURLToPath(new URL('./claim-and-die.mjs', import.meta.url))
  const worker = spawn(process.execPath, [entry, join(one.shop.folder, 'onceish.config.json')], { stdio: 'inherit' })
  expect((await once(worker, 'exit'))[1]).toBe('SIGKILL')
  expect((await one.shop.json<{ states: object }>('status')).states).toEqual({ invoking: 4 })
  expect((await seen(one)).calls).toEqual([])
  await expectReconciled(one, { effects: 0, state: 'held' })
})

test('killed during the call, before its effect', async () => {
  const one = await openCase('slow_before:600')
  await killWorker(one, ({ calls, effects }) => calls.length === 4 && effects.length === 0, 'four calls without effect')
  await expectReconciled(one, { effects: 1, state: 'held' })
})

test('killed after the effect, before the answer', async () => {
  const one = await openCase('slow:800')
  await killWorker(one, ({ effects }) => effects.length === 4, 'four effects')
  await expectReconciled(one, { effects: 1, state: 'held' })
})

test('killed right after the answers', async () => {
  const one = await openCase('none')
  await killWorker(one, ({ effects, running }) => effects.length === 4 && running === 0, 'four answers')
  await expectReconciled(one, { effects: 1 })
})

test('killed again and again in mid-run, the same holds', async () => {
  const shop = openShop(configFor(api.origin))
  const requests = KINDS.flatMap((target) =>
    Array.from({ length: 15 }, () => ({
      target,
      payload: { n: ++lastN, fault: lastN % 3 === 0 ? 'slow:150' : 'none' },
    })),
  )
  const numbers = requests.map(({ payload }) => payload.n)
  await enqueue(shop, requests)
  const mine = async () => (await api.oracle()).effects.filter((effect) => numbers.includes(effect.n as number))
  for (const share of [5, 20, 35]) {
    const worker = shop.start('work', '--concurrency', '8')
    await waitFor(async () => (await mine()).length >= share, { what: `${share} effects`, timeoutMs: 15_000 })
    worker.kill('SIGKILL')
    await worker.ended
  }
  await shop.run('work', '--drain')
  const effects = await mine()
  expect(effects.length).toBe(new Set(effects.map((effect) => effect.n)).size)
  const listed = await shop.lines<Listed>('list')
  expect(listed.filter((row) => row.target !== 'messages').every((row) => row.state === 'submitted')).toBe(true)
  expect(
    listed.filter((row) => row.target === 'messages').every((row) => row.state === 'submitted' || row.state === 'held'),
  ).toBe(true)
})
