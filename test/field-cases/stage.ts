// What the field cases stand on: counting APIs on real sockets, a store on a real file, clocks that can pass a day. Targets
// are written as a config file would have them.
import { join } from 'node:path'
import { HttpResponse, http } from 'msw'
import { expect, onTestFinished } from 'vitest'
import { serveMsw } from '../../fixtures/api/serve-msw.ts'
import type { Onceish } from '../../src/index.ts'
import { composeOnceish, type Seams } from '../../src/onceish.ts'
import {
  type CrashPoint,
  type FakeApi,
  type FakeApiOptions,
  openForTest,
  startFakeApi,
  type VirtualClock,
  virtualClock,
} from '../../src/testing.ts'
import type { RawConfig } from '../support/api.ts'
import { tempDir } from '../support/temp-dir.ts'

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS
/** Of what has to run out in a test. */
export const DEADLINE_MS = 5 * MINUTE_MS
export const DRAIN = { drain: { horizonMs: HOUR_MS } }

const TASK_ID = '{% $response.body.id %}'

export function opaque(url: string): RawConfig {
  return { submit: { url, timeoutMs: 5000 }, taskId: TASK_ID }
}

export function keyed(url: string): RawConfig {
  return { ...opaque(url), idempotency: { header: 'Idempotency-Key', rememberedFor: '24h', margin: '1h' } }
}

export function listed(url: string): RawConfig {
  return {
    ...opaque(url),
    submit: { url, timeoutMs: 5000, body: "{% $merge([$payload, { 'reference': $key }]) %}" },
    idempotency: {},
    lookup: {
      url: `${url}?reference={% $key %}`,
      taskId: '{% $response.body.data.id %}',
      complete: '{% $response.body.has_more = false %}',
      settleMs: '2m',
      everyMs: '30s',
      misses: 2,
      missMeans: 'absent',
      remembers: '7d',
    },
  }
}

export interface Stage {
  readonly api: FakeApi
  readonly clock: VirtualClock
  readonly path: string
  /** A process life on the stage's one file; its target is called `job`. */
  open(seams?: Seams): Promise<Onceish>
  /** A life that enqueues this payload and crashes at `point`. */
  crash(payload: unknown, point: CrashPoint): Promise<void>
}

/** @param describe the target from the API's URL. To be called in a test. */
export async function openStage(
  kind: FakeApiOptions['kind'],
  describe: (url: string, origin: string) => RawConfig,
  options: Partial<FakeApiOptions> = {},
): Promise<Stage> {
  const clock = virtualClock()
  const api = await startFakeApi({ kind, clock, ...options })
  onTestFinished(() => api.close())
  const path = join(tempDir(), 'jobs.db')
  const config = { store: path, targets: { job: describe(api.url, api.origin) } }
  return {
    api,
    clock,
    path,
    open: (seams) => openField(config, clock, seams),
    crash: async (payload, point) => {
      const once = await openForTest({ config, clock, crashAt: point })
      await once.enqueue({ target: 'job', payload })
      await expect(once.startWorker().done).rejects.toMatchObject({ code: 'SIMULATED_CRASH' })
      await once.close()
    },
  }
}

/** To be called in a test: it closes with it. */
export async function openField(config: RawConfig, clock?: VirtualClock, seams: Seams = {}): Promise<Onceish> {
  const once = await composeOnceish({ config, ...(clock && { clock }) }, seams)
  onTestFinished(() => once.close())
  return once
}

export interface TaskApi {
  readonly url: string
  /** How often a task was made. */
  submits(): number
  /** How often the state of one was asked for. */
  polls(): number
  /** What it says of a task from now on, an answer a poll, the last one for ever. */
  say(...answers: readonly object[]): void
}

/** An API whose tasks take their time. To be called in a test. */
export async function startTaskApi(): Promise<TaskApi> {
  const base = 'https://tasks.sample.test'
  const strays: unknown[] = []
  let submits = 0
  let polls = 0
  let answers: readonly object[] = [{}]
  const served = await serveMsw({
    base,
    port: 0,
    onUnhandled: (route) => strays.push(route),
    onError: (error) => strays.push(error),
    handlers: [
      http.post(`${base}/tasks`, () => HttpResponse.json({ id: `task-${++submits}` }, { status: 201 })),
      http.get(`${base}/tasks/:id`, () => {
        polls++
        const [answer = {}, ...later] = answers
        if (later.length > 0) answers = later
        return HttpResponse.json({ ...answer })
      }),
    ],
  })
  onTestFinished(async () => {
    await served.close()
    expect(strays).toEqual([])
  })
  return {
    url: `${served.origin}/tasks`,
    submits: () => submits,
    polls: () => polls,
    say: (...next) => {
      answers = next
    },
  }
}

export function tracked(url: string): RawConfig {
  return {
    ...keyed(url),
    status: {
      url: `${url}/{% $taskId %}`,
      state: '{% $response.body.status %}',
      pending: ['queued'],
      succeeded: ['succeeded'],
      failed: ['failed'],
      everyMs: '5s',
    },
    deadlineMs: DEADLINE_MS,
  }
}
