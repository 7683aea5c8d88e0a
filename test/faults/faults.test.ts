// Every fault of the table through the whole product: a store file, a described target, a worker, the production's HTTP. What
// it made of the call, where the request ends, and that nobody was called a second time blindly.
import { expect, test } from 'vitest'
import type { Evidence } from '../../src/core/outcome.ts'
import type { Onceish } from '../../src/index.ts'
import type { RequestDetail } from '../../src/store/views.ts'
import { countProof } from '../support/proof.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { type FaultyApi, keyIn, well } from './fault-servers.ts'
import { FAULTS, type Fault } from './fault-table.ts'
import { type Kind, opener } from './open-on.ts'

const ENDINGS = { deadline: 'DEADLINE', dial: 'UND_ERR_CONNECT_TIMEOUT', caller: 'ABORTED' } as const

test.each(titled(({ verdict, opaque }) => `${verdict}, ${opaque}`))('opaque, %s', async (_title, fault) => {
  const { api, met, settled } = await meet('opaque', fault)
  expectVerdict(met, fault)
  const read = partsOf(api)
  if (fault.opaque === 'put back') {
    expect(read).toEqual([...read.slice(1).map(() => fault.read), 'whole'])
    expect(settled).toMatchObject({ state: 'submitted', attempts: 1 })
  } else {
    expect(read).toEqual(readOfFirst(fault))
    expect(settled.state).toBe(fault.opaque)
  }
  if (fault.opaque === 'held')
    expect(settled).toMatchObject({ reason: 'opaque', taskState: { executed: is2xx(fault) } })
})

test.each(titled(({ verdict }) => `${verdict}, one effect`))('keyed, %s', async (_title, fault) => {
  const { api, met, settled } = await meet('keyed', fault)
  expectVerdict(met, fault)
  const whole = api.calls().filter(({ read }) => read === 'whole')
  expect(settled.state).toBe(fault.opaque === 'dead' ? 'dead' : 'submitted')
  if (fault.opaque === 'held') {
    const replays = partsOf(api).slice(readOfFirst(fault).length)
    expect(replays.length).toBeGreaterThan(0)
    expect(replays.every((read) => read === 'whole')).toBe(true)
    expect(settled).toMatchObject({ taskId: settled.taskState?.idempotencyKey, attempts: 1 })
  }
  expect(new Set(whole.map(({ text }) => text)).size).toBeLessThanOrEqual(1)
  expect(new Set(whole.map(({ text }) => keyIn(text)))).toEqual(
    new Set(whole.length === 0 ? [] : [settled.taskState?.idempotencyKey]),
  )
})

function titled(ending: (fault: Fault) => string): [string, Fault][] {
  return FAULTS.map((fault) => [`${fault.number}. ${fault.name}: ${ending(fault)}`, fault])
}

test('what no call can carry is refused before one is made: by the loader, or dead and never called', async () => {
  const api = await well()
  for (const header of ['content-length', 'expect']) {
    const refused = opener(api, { kind: 'opaque', submit: { headers: { [header]: '3' } } })()
    await expect(refused).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
  }
  const once = await opener(api, { kind: 'opaque', submit: { headers: { 'x-note': '{% $payload.note %}' } } })()
  await once.enqueue({ target: 'jobs', payload: { note: 'a\r\nx-more: b' } })
  await once.startWorker(DRAIN).done
  expect(await once.get(1)).toMatchObject({ state: 'dead', reason: 'render_failed', attempt: 0 })
  expect(api.calls()).toEqual([])
})

interface Met {
  readonly api: FaultyApi
  /** When the first call had ended; of one that is put back, when the next one had, too. */
  readonly met: RequestDetail
  /** When no worker had anything to do any more. */
  readonly settled: RequestDetail
}

async function meet(kind: Kind, fault: Fault): Promise<Met> {
  const api = await fault.api()
  const open = opener(api, { kind, ...fault })
  const once = await open()
  const note = 'x'.repeat(fault.bodyBytes ?? 1)
  await once.enqueue({ target: 'jobs', payload: { note } })
  const worker = once.startWorker(DRAIN)
  if (api.isTimeToLeave !== undefined) {
    await waitFor(api.isTimeToLeave, { what: 'the time to leave' })
    await worker.stop()
  }
  // Between two calls: no dial of the time before sees what is healed.
  const met = await waitFor(() => endOfFirstCall(once, fault), { what: 'the first call to end' })
  await api.heal()
  await worker.done
  if (fault.isReadLate) await waitFor(() => api.calls().length > 0, { what: 'the late reading' })
  await once.close()
  const settled = await goOn(await open())
  const read = partsOf(api)
  const later = await goOn(await open())
  expect([later.state, later.version, partsOf(api)]).toEqual([settled.state, settled.version, read])
  return { api, met, settled }
}

/** However long anybody goes on. */
async function goOn(once: Onceish): Promise<RequestDetail> {
  await once.recover()
  await once.startWorker(DRAIN).done
  const detail = await requestOf(once)
  await once.close()
  return detail
}

async function requestOf(once: Onceish): Promise<RequestDetail> {
  const detail = await once.get(1)
  if (detail === null) throw new Error('the request is gone')
  return detail
}

async function endOfFirstCall(once: Onceish, fault: Fault): Promise<RequestDetail | null> {
  // The whole request may hold megabytes: it is read once there is news.
  const [view] = await once.list()
  const isQueued = view?.state === 'scheduled' || view?.state === 'ready'
  const isPutBack = isQueued && view.attempt > 1
  const isNews = fault.opaque === 'put back' ? isPutBack : !isQueued && (view?.state !== 'invoking' || view.attempt > 1)
  if (!isNews) return null
  const detail = await requestOf(once)
  return evidenceOfFirst(detail, fault) === null ? null : detail
}

function evidenceOfFirst({ events, state, taskState }: RequestDetail, fault: Fault): Evidence | null {
  const evidences = events.flatMap(({ detail }) => (detail as { evidence?: Evidence } | null)?.evidence ?? [])
  // On a busy machine a short deadline can pass before the dial ends: that call is put back, and the next one meets the fault.
  const first = evidences.find(({ phase }) => fault.endsBy !== 'deadline' || phase !== 'not_sent')
  // A plain success is told by its row alone.
  return first ?? (state === 'submitted' ? (taskState?.evidence ?? null) : null)
}

function expectVerdict(met: RequestDetail, fault: Fault): void {
  const { verdict: phase, status } = fault
  countProof('faults')
  const evidence = evidenceOfFirst(met, fault)
  expect(evidence).toMatchObject({ phase, ...(status === undefined ? {} : { status }) })
  if (fault.endsBy) expect(evidence?.error).toContain(ENDINGS[fault.endsBy])
  if (fault.opaque === 'put back') expect(met).toMatchObject({ attempts: 0, reason: 'not_executed' })
  if (fault.opaque === 'dead') expect(met).toMatchObject({ state: 'dead', reason: 'rejected' })
}

function partsOf(api: FaultyApi) {
  return api.calls().map(({ read }) => read)
}

function readOfFirst({ read, isReadLate }: Fault) {
  if (isReadLate) return ['whole']
  return read === 'nothing' ? [] : [read]
}

function is2xx({ status = 0 }: Fault): boolean {
  return status >= 200 && status < 300
}
