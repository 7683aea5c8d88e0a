// The shipped command line, killed with SIGKILL while its calls are at the API, for all four kinds at once; effects are counted
// outside of it. What is killed between two steps of the product's own is the matrix's.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { KINDS, type Kind } from '../../fixtures/api/ledger.ts'
import { type Api, configFor, oracleAtRest, startApi } from '../support/api.ts'
import { type Listed, openShop, type Shop } from '../support/cli.ts'
import { waitFor } from '../support/wait-for.ts'

let api: Api
let lastN = 0
beforeAll(async () => {
  api = await startApi({ settings: { lagMs: 250 } })
})
afterAll(() => api.stop())

interface Case {
  readonly shop: Shop
  readonly numbers: ReadonlyMap<Kind, number>
}

/** One request of each kind, all with the same fault. */
async function openCase(fault: string): Promise<Case> {
  const shop = openShop(configFor(api.origin))
  const numbers = new Map<Kind, number>(KINDS.map((kind) => [kind, ++lastN]))
  const requests = [...numbers].map(([target, n]) => JSON.stringify({ target, payload: { n, fault } }))
  shop.write('jobs.ndjson', requests.join('\n'))
  const { code, stderr } = await shop.run('enqueue', '--file', 'jobs.ndjson')
  if (code !== 0) throw new Error(stderr)
  return { shop, numbers }
}

async function seen({ numbers }: Case) {
  const { calls, effects } = await api.oracle()
  const mine = (n: number | string | null) => [...numbers.values()].includes(n as number)
  return { calls: calls.filter((call) => mine(call.n)), effects: effects.filter((effect) => mine(effect.n)) }
}

/** What must be true at the end, wherever the worker died. */
async function expectReconciled(one: Case): Promise<void> {
  const { code } = await one.shop.run('work', '--drain')
  await oracleAtRest(api)
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
  expect(effects.filter((effect) => effect.kind === 'messages')).toHaveLength(1)
  await expectEvidence(one.shop, message)
  expect(code).toBe(3)
}

async function expectEvidence(shop: Shop, message: Listed | undefined): Promise<void> {
  expect(message).toMatchObject({ state: 'held', reason: 'opaque' })
  const shown = await shop.json<{
    taskState: { attempt: number }
    prepared: { url: string }
    events: { kind: string; reason: string }[]
  }>('show', String(message?.requestId))
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

test('killed during the call, before its effect', async () => {
  const one = await openCase('slow_before:600')
  await killWorker(one, ({ calls, effects }) => calls.length === 4 && effects.length === 0, 'four calls without effect')
  await expectReconciled(one)
})

test('killed after the effect, before the answer', async () => {
  const one = await openCase('slow:800')
  await killWorker(one, ({ effects }) => effects.length === 4, 'four effects')
  await expectReconciled(one)
})
