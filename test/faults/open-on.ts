// The whole product on a faulty API: a store file and one described target, with times short enough for a test and long
// enough for the loader. Between product and network stands only what a row asks for.
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { Onceish } from '../../src/index.ts'
import { composeOnceish } from '../../src/onceish.ts'
import { createHttpTarget } from '../../src/target/http/http-target.ts'
import type { Target } from '../../src/target/target.ts'
import type { RawConfig } from '../support/api.ts'
import { tempDir } from '../support/temp-dir.ts'
import type { FaultyApi } from './fault-servers.ts'
import type { Fault } from './fault-table.ts'

/** What the target offers to settle doubt by: nothing, or a key. */
export type Kind = 'opaque' | 'keyed'

const ARRIVAL_MS = 50
/** For a call that nothing else ends. */
const DEADLINE_MS = 1000
/** What no call takes that something else ends, on a busy machine either. */
const PATIENT_MS = 10_000

/** A busy machine may take its time between claim and write: the gate is not what is tested here. */
const LEASE_SLACK_MS = 20_000

/** @returns opens the same store each time it is called, as another process would. */
export function opener(
  { url, connectHook }: Pick<FaultyApi, 'url' | 'connectHook'>,
  given: Pick<Fault, 'endsBy' | 'bend'> & { readonly kind: Kind; readonly submit?: RawConfig },
): () => Promise<Onceish> {
  const { kind, endsBy, submit } = given
  const timeoutMs = endsBy === 'deadline' ? DEADLINE_MS : PATIENT_MS
  const idempotency = {
    header: 'Idempotency-Key',
    rememberedFor: '1h',
    arrivalMs: ARRIVAL_MS,
    margin: timeoutMs + ARRIVAL_MS,
  }
  const jobs = {
    submit: { url, timeoutMs, connectMs: endsBy === 'dial' ? 100 : PATIENT_MS, ...submit },
    taskId: '{% $response.body.id %}',
    // One attempt: whatever burns it ends the request.
    retry: { maxAttempts: 1, initialMs: 50, maxMs: 200 },
    ...(kind === 'keyed' ? { idempotency } : {}),
  }
  const config = {
    store: join(tempDir(), 'jobs.db'),
    maxPayloadBytes: 8_388_608,
    worker: { concurrency: 4, leaseMs: timeoutMs + LEASE_SLACK_MS, graceMs: 0 },
    targets: { jobs },
  }
  return async () => {
    const once = await composeOnceish({ config }, { target: (target) => bend(dialBy(target, connectHook), given) })
    onTestFinished(() => once.close())
    return once
  }
}

function dialBy(target: Target, connectHook: FaultyApi['connectHook']): Target {
  if (connectHook === undefined) return target
  return createHttpTarget(JSON.parse(target.description), { env: {}, connectHook })
}

function bend(target: Target, { bend }: Pick<Fault, 'bend'>): Target {
  if (bend === undefined) return target
  const prepare = target.prepare.bind(target)
  return Object.assign(target, { prepare: (input: Parameters<Target['prepare']>[0]) => bend(prepare(input)) })
}
