// What the field cases stand on: counting APIs on real sockets, a store on a real file, clocks that can pass a day. Targets
// are written as a config file would have them.
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import type { Onceish } from '../../src/index.ts'
import { composeOnceish, type Seams } from '../../src/onceish.ts'
import {
  type CrashPoint,
  type FakeApi,
  type FakeApiOptions,
  openForTest,
  type VirtualClock,
  virtualClock,
} from '../../src/testing.ts'
import type { RawConfig } from '../support/api.ts'
import { openFakeApi } from '../support/counting-api.ts'
import { tempDir } from '../support/temp-dir.ts'

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS
/** Of what has to run out in a test. */
export const DEADLINE_MS = 5 * MINUTE_MS

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
  const api = await openFakeApi({ kind, clock, ...options })
  const config = { store: join(tempDir(), 'jobs.db'), targets: { job: describe(api.url, api.origin) } }
  return {
    api,
    clock,
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
