// The whole product on a faulty API: a store file and one described target, with times short enough for a test and long
// enough for the loader. Between product and network stands only what a row asks for.

import type { Onceish } from '../../src/index.ts'
import { composeOnceish } from '../../src/onceish.ts'
import { createHttpTarget } from '../../src/target/http/http-target.ts'
import type { Target } from '../../src/target/target.ts'
import type { FaultyApi } from './fault-servers.ts'
import type { Fault } from './fault-table.ts'

export type Kind = 'opaque' | 'keyed'

const ARRIVAL_MS = 50
/** A call that nothing else ends. */
const DEADLINE_MS = 1000
/** What no call takes that something else ends, on a busy machine either. */
const PATIENT_MS = 10_000

export async function openOn(
  api: FaultyApi,
  given: { readonly kind: Kind; readonly fault: Fault; readonly store: string },
): Promise<Onceish> {
  const { kind, fault, store } = given
  const timeoutMs = fault.endsBy === 'deadline' ? DEADLINE_MS : PATIENT_MS
  const idempotency = {
    header: 'Idempotency-Key',
    rememberedFor: '1h',
    arrivalMs: ARRIVAL_MS,
    margin: timeoutMs + ARRIVAL_MS,
  }
  const jobs = {
    submit: { url: api.url, timeoutMs, connectMs: fault.endsBy === 'dial' ? 100 : PATIENT_MS },
    taskId: '{% $response.body.id %}',
    // One attempt: whatever burns it ends the request.
    retry: { maxAttempts: 1, initialMs: 50, maxMs: 200 },
    ...(kind === 'keyed' ? { idempotency } : {}),
  }
  const config = {
    store,
    maxPayloadBytes: 8_388_608,
    worker: { concurrency: 4, leaseMs: timeoutMs + 500, graceMs: 0 },
    targets: { jobs },
  }
  return composeOnceish({ config }, { target: (target) => bend(dialBy(target, api), fault) })
}

function dialBy(target: Target, { connectHook }: FaultyApi): Target {
  if (connectHook === undefined) return target
  return createHttpTarget(JSON.parse(target.description), { env: {}, connectHook })
}

function bend(target: Target, { bend }: Fault): Target {
  if (bend === undefined) return target
  const prepare = target.prepare.bind(target)
  return Object.assign(target, { prepare: (input: Parameters<Target['prepare']>[0]) => bend(prepare(input)) })
}
