// A power cut forgets what was not synced. The operating system's own trace of a worker shows that each `invoking` row was on
// disk before the first byte of its call, each request before its enqueue was told, each settlement before anybody was told of it.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, onTestFinished, type TestContext, test } from 'vitest'
import { KINDS } from '../../fixtures/api/ledger.ts'
import { loadConfig, openOnceish } from '../../src/index.ts'
import { type Api, configFor, type RawConfig, startApi } from '../support/api.ts'
import { countProof } from '../support/proof.ts'
import { MAIN } from '../support/run-cli.ts'
import { tempDir } from '../support/temp-dir.ts'
import { DRAIN } from '../support/worker.ts'
import { sentRequests, syncedAt, toldAt } from './durable.ts'
import { enqueueBatch, fatesOf } from './support/batch.ts'
import { ROOMY } from './support/roomy.ts'
import { skipBecause, tryCommand } from './support/skip.ts'
import { runWithFault, type Syscall, traceNode } from './trace.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

const WORKER = fileURLToPath(new URL('./telling-worker.mjs', import.meta.url))
const UNSYNCED = fileURLToPath(new URL('./unsynced.mjs', import.meta.url))
const REQUESTS = 48

type Level = 'FULL' | 'NORMAL' | 'OFF'

function needTracing(context: TestContext): void {
  const why = tryCommand('strace', '-f', '--seccomp-bpf', '-o', '/dev/null', 'true')
  if (why !== null) skipBecause(context, why)
}

function preload(level: Level): string[] {
  return level === 'FULL' ? [] : ['--import', UNSYNCED]
}

/** Said by a call's body alone: it is made at the claim, and of the store's rows only the `invoking` one holds it. */
const wordsOf = (n: string) => `call-of-${n}`

function writeConfig(): { folder: string; file: string } {
  const folder = tempDir()
  const file = join(folder, 'onceish.config.json')
  const targets = Object.entries(configFor(api.origin, ROOMY)['targets'] as Record<string, RawConfig>).map(
    ([kind, target]) => {
      const reference = kind === 'parcels' ? ", 'reference': $key" : ''
      const body = `{% { 'n': $payload.n, 'words': 'call-of-' & $payload.n${reference} } %}`
      return [kind, { ...target, submit: { ...(target['submit'] as RawConfig), body } }]
    },
  )
  const worker = { concurrency: 8, leaseMs: 20_000 }
  writeFileSync(file, JSON.stringify({ store: './jobs.db', worker, targets: Object.fromEntries(targets) }))
  return { folder, file }
}

interface Traced {
  readonly numbers: readonly string[]
  readonly trace: readonly Syscall[]
}

/** Enqueued beforehand, so that the log which the worker writes is its own. */
async function traceWorker(level: Level): Promise<Traced> {
  const { folder, file } = writeConfig()
  const once = await openOnceish({ config: await loadConfig({ file }) })
  const numbers = Array.from({ length: REQUESTS }, (_, i) => `${level}-${String(i).padStart(4, '0')}`)
  await once.enqueueMany(numbers.map((n, i) => ({ target: KINDS[i % KINDS.length] ?? '', payload: { n } })))
  await once.close()
  const trace = await traceNode([...preload(level), WORKER, file], { cwd: folder, env: levelOf(level) })
  return { numbers, trace }
}

async function traceEnqueue(level: Level): Promise<Traced> {
  const { folder, file } = writeConfig()
  const n = `enqueue-${level}`
  const payload = JSON.stringify({ n })
  const command = [MAIN, 'enqueue', '--config', file, '--target', 'renders', '--payload', payload, '--json']
  return { numbers: [n], trace: await traceNode([...preload(level), ...command], { cwd: folder, env: levelOf(level) }) }
}

function levelOf(level: Level): Record<string, string> {
  return { ONCEISH_TEST_SYNCHRONOUS: level }
}

/** Those whose first byte left before its `invoking` row was on disk. */
function calledTooEarly({ numbers, trace }: Traced): string[] {
  const requests = sentRequests(trace)
  return numbers.filter((n) => {
    const sent = requests.filter(({ text }) => text.includes(wordsOf(n)))
    if (sent.length !== 1) throw new Error(`${n} was sent ${sent.length} times`)
    return sent.some(({ beganAt }) => syncedAt(trace, wordsOf(n)) >= beganAt)
  })
}

/** Those whose settlement was told before it was on disk. */
async function toldTooEarly({ numbers, trace }: Traced): Promise<string[]> {
  const { effects } = await api.oracle()
  return numbers.filter((n) => {
    const taskId = effects.find((effect) => effect.n === n)?.taskId ?? ''
    const at = toldAt(trace, taskId)
    if (taskId === '' || Number.isNaN(at)) throw new Error(`nobody was told of ${n}`)
    return syncedAt(trace, taskId) >= at
  })
}

function acknowledgedTooEarly({ numbers, trace }: Traced): string[] {
  const at = toldAt(trace, '"requestId"')
  if (Number.isNaN(at)) throw new Error('the enqueue was not acknowledged')
  return numbers.filter((n) => syncedAt(trace, n) >= at)
}

test('every invoking row is on disk before the first byte of its call, every settlement before anybody is told', async (context) => {
  needTracing(context)
  const traced = await traceWorker('FULL')
  expect(calledTooEarly(traced)).toEqual([])
  expect(await toldTooEarly(traced)).toEqual([])
  const sockets = new Set(traced.trace.filter(({ file }) => file.startsWith('TCP')).map(({ file }) => file))
  expect(sockets.size).toBeGreaterThan(1)
  countProof('syncedCalls', traced.numbers.length)
})

test('every request is on disk before its enqueue is acknowledged', async (context) => {
  needTracing(context)
  expect(acknowledgedTooEarly(await traceEnqueue('FULL'))).toEqual([])
})

test.for(['NORMAL', 'OFF'] as const)(
  'with synchronous=%s the same reading of the trace finds what is not on disk',
  async (level, context) => {
    needTracing(context)
    const [worker, enqueue] = await Promise.all([traceWorker(level), traceEnqueue(level)])
    expect(calledTooEarly(worker)).toEqual(worker.numbers)
    expect(await toldTooEarly(worker)).toEqual(worker.numbers)
    expect(acknowledgedTooEarly(enqueue)).toEqual(enqueue.numbers)
  },
)

// The first two are of the new log and of its folder, whose failure SQLite ignores; the third is of the descriptions' commit,
// then come the record of calls and its folder.
test.for([
  ['claim', 6],
  ['settle', 7],
] as const)(
  'a sync that fails at the %s ends the worker: what it wrote may be gone, and nothing is done twice',
  async ([_, nth], context) => {
    needTracing(context)
    const { folder, file } = writeConfig()
    const open = async () => openOnceish({ config: await loadConfig({ file }) })
    const before = await open()
    const batch = await enqueueBatch(before)
    await before.close()
    const fault = `fsync,fdatasync:error=EIO:when=${nth}`
    const { code, stderr } = await runWithFault(fault, [MAIN, 'work', '--drain', '--config', file], { cwd: folder })
    expect(code).toBe(1)
    expect(stderr.match(/STORE_SYNC_FAILED/g)).toHaveLength(1)
    const after = await open()
    onTestFinished(() => after.close())
    await after.startWorker(DRAIN).done
    const fates = await fatesOf(api, after, batch)
    for (const { effects } of Object.values(fates)) expect(effects).toBeLessThanOrEqual(1)
    for (const { state } of Object.values(fates)) expect(state).toMatch(/^(submitted|held)$/)
  },
)
