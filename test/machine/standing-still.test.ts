// A process that stands still beyond its lease and goes on, at each moment of a call, for all four kinds: another worker takes
// over meanwhile. (C08 of the field's cases is the first: the event loop is blocked between claim and send.)
import { spawn } from 'node:child_process'
import { once as onceEmitted } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Onceish, openOnceish, type WorkerCounters } from '../../src/index.ts'
import { type Api, configFor, startApi } from '../support/api.ts'
import { linesOf } from '../support/run-cli.ts'
import { tempDir } from '../support/temp-dir.ts'
import { waitFor } from '../support/wait-for.ts'
import { DRAIN } from '../support/worker.ts'
import { ALL_DONE, callsOf, DONE, enqueueBatch, type Fates, fatesOf, HELD } from './support/batch.ts'

let api: Api
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.stop())

type Moment = 'claimed' | 'gate' | 'asked' | 'answered'

interface Said {
  readonly standing?: Moment
  readonly level?: string
  readonly message?: string
  readonly counters?: WorkerCounters
}

/** Short enough to be waited for, long enough that no call of the other worker ends in doubt. */
const TIMES = {
  worker: { leaseMs: 3000 },
  targets: {
    executions: { submit: { timeoutMs: 2400 }, idempotency: { margin: '3s' } },
    renders: { submit: { timeoutMs: 2400 }, idempotency: { margin: '3s' } },
    parcels: { submit: { timeoutMs: 2400 } },
    messages: { submit: { timeoutMs: 2400 } },
  },
}
const PATIENT = { timeoutMs: 60_000 }

const ENTRY = fileURLToPath(new URL('./standing-worker.mjs', import.meta.url))

function startStanding(folder: string, file: string, moment: Moment) {
  const child = spawn(process.execPath, [ENTRY, file, moment], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  return {
    said: () => linesOf(text.slice(0, text.lastIndexOf('\n') + 1)) as Said[],
    kill: (signal: NodeJS.Signals) => void child.kill(signal),
    ended: onceEmitted(child, 'close'),
  }
}

interface Ended {
  /** When the other worker had done all that it could. */
  readonly meanwhile: Fates
  readonly fates: Fates
  readonly counters: WorkerCounters
  readonly warnings: readonly string[]
}

async function standStill(moment: Moment): Promise<Ended> {
  const folder = tempDir()
  const config = { ...configFor(api.origin, TIMES), store: join(folder, 'jobs.db') }
  const file = join(folder, 'onceish.config.json')
  writeFileSync(file, JSON.stringify(config))
  const other: Onceish = await openOnceish({ config })
  onTestFinished(() => other.close())
  const batch = await enqueueBatch(other, moment === 'asked' ? 'slow:600' : 'none')
  const standing = startStanding(folder, file, moment)
  if (moment === 'asked') {
    await waitFor(async () => (await callsOf(api, batch)) === 4, { ...PATIENT, what: 'four calls' })
    standing.kill('SIGSTOP')
  } else await waitFor(() => standing.said().some((line) => line.standing === moment), { ...PATIENT, what: moment })
  await other.startWorker(DRAIN).done
  const meanwhile = await fatesOf(api, other, batch)
  if (moment === 'claimed') writeFileSync(join(folder, 'go-on'), '')
  else standing.kill('SIGCONT')
  // It is alive again when it does new work; what it had to say of its old calls it has said by then.
  const { requestId } = await other.enqueue({ target: 'renders', payload: { n: `after ${moment}` } })
  await waitFor(async () => (await other.get(requestId))?.state === 'submitted', { ...PATIENT, what: 'new work' })
  await other.startWorker(DRAIN).done
  standing.kill('SIGTERM')
  await standing.ended
  const said = standing.said()
  const counters = said.find((line) => line.counters !== undefined)?.counters
  if (counters === undefined) throw new Error(`no counters at ${moment}`)
  const warnings = said.flatMap(({ level, message }) => (level === undefined ? [] : [`${level}: ${message}`]))
  return { meanwhile, fates: await fatesOf(api, other, batch), counters, warnings }
}

const UNCALLED = { ...HELD, calls: 0, effects: 0 }
const STOOD = expect.stringMatching(/^warn: this process stood still for \d+ ms/)

test('blocked or stopped beyond its lease at any moment, it does nothing that another may have done', async () => {
  const [claimed, gate, asked, answered] = await Promise.all([
    standStill('claimed'),
    standStill('gate'),
    standStill('asked'),
    standStill('answered'),
  ])
  // Nothing had left: the other made each call that it may make, this one none but the one that nobody else could.
  for (const one of [claimed, gate]) {
    expect(one.meanwhile).toEqual({ ...ALL_DONE, messages: UNCALLED })
    expect(one.fates).toEqual(ALL_DONE)
    expect(one.counters.leasesLost + one.counters.callsKeptBack).toBeGreaterThanOrEqual(1)
    expect(one.counters.answersFenced).toBeGreaterThanOrEqual(3)
  }
  // Everything had left: the other asked again under the key, looked up, or left it to a person.
  const replayed = { ...DONE, calls: 2 }
  const found = { executions: replayed, renders: replayed, parcels: DONE, messages: HELD }
  for (const one of [asked, answered]) {
    expect(one.meanwhile).toEqual(found)
    expect(one.counters.callsKeptBack).toBe(0)
  }
  // Its own answer of the newest attempt settles what a person would have had to judge.
  expect(answered.fates).toEqual({ ...found, messages: DONE })
  expect({ ...asked.fates, messages: HELD }).toEqual(found)
  expect(asked.fates.messages).toMatchObject({ calls: 1, effects: 1 })
  for (const { warnings, counters } of [claimed, gate, asked, answered]) {
    expect(counters.stalls).toBeGreaterThanOrEqual(1)
    expect(warnings.filter((line) => line.includes('stood still'))).toEqual(Array(counters.stalls).fill(STOOD))
    expect(warnings.filter((line) => line.startsWith('error'))).toEqual([])
  }
})
