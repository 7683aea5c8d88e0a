// The five targets of the simulated world: their policies are the product's own, their calls are the model's.

import type { Outcome } from '../../src/core/outcome.ts'
import type { CodeTargetPolicy } from '../../src/index.ts'
import type { Target } from '../../src/target/target.ts'
import { type ApiModel, type Kind, TIMES } from './api-model.ts'
import type { Library } from './library.ts'
import type { Life, Schedule } from './schedule.ts'

const KEY = {
  rememberedFor: TIMES.rememberedMs,
  margin: TIMES.marginMs,
  arrivalMs: TIMES.arrivalMs,
  maxReplays: 4,
} as const
const COMMON = {
  timeoutMs: TIMES.timeoutMs,
  deadlineMs: TIMES.deadlineMs,
  retry: { maxAttempts: 3, initialMs: 50, maxMs: 400 },
} as const

const POLICIES: Readonly<Record<Kind, CodeTargetPolicy>> = {
  keyed: { ...COMMON, idempotency: { ...KEY, failedFirst: 'reexecuted' } },
  stores: { ...COMMON, idempotency: { ...KEY, failedFirst: 'replayed' } },
  named: { ...COMMON, idempotency: { ...KEY, clientId: true } },
  listed: {
    ...COMMON,
    idempotency: {},
    lookup: {
      settleMs: TIMES.settleMs,
      everyMs: TIMES.everyMs,
      misses: 2,
      missMeans: 'absent',
      remembers: TIMES.rememberedMs,
    },
  },
  opaque: COMMON,
}

export const KINDS = Object.keys(POLICIES) as Kind[]

const ANYTHING = {
  '~standard': { version: 1, vendor: 'simulation', validate: (value: unknown) => ({ value }) },
} as const

export function configFor(library: Library, store: string) {
  const targets = KINDS.map((name) =>
    library.defineTarget({
      name,
      version: '1',
      payload: ANYTHING,
      policy: POLICIES[name],
      invoke: () => ({ taskId: 'the model answers' }),
      ...(name === 'listed' ? { lookup: () => ({ kind: 'absent' as const }), cancel: () => {} } : {}),
    }),
  )
  const named = Object.fromEntries(targets.map((target) => [target.name, target]))
  const worker = { concurrency: 4, leaseMs: TIMES.leaseMs, graceMs: 300 }
  return library.parseConfig({ store, namespace: 'simulation', worker, targets: named }, { path: null, baseDir: '/' })
}

interface Place {
  readonly life: Life
  readonly schedule: Schedule
  readonly api: ApiModel
  /** Differs between lives: a replay must not. */
  readonly revision: number
  /** The call's bytes are about to leave, or have left. */
  readonly onCall: (moment: 'before' | 'after', payload: string) => void
}

export function modelTarget(target: Target, place: Place): Target {
  const { life, schedule, api } = place
  const kind = target.name as Kind
  const evidence = { phase: 'answered', status: 200 } as const
  return {
    name: target.name,
    version: target.version,
    description: target.description,
    policy: target.policy,
    summary: target.summary,
    keyFor: (input) => target.keyFor(input),
    sameOrigin: () => true,
    close: async () => {},
    prepare: (input) => ({ ...target.prepare(input), body: `${input.payload} rendered in life ${place.revision}` }),
    invoke: async (prepared, { input, gate, onWritten, signal }) => {
      const startedAt = schedule.now()
      const of = nameOf(input.request)
      await schedule.step(life, `dials for ${of}`)
      const late = schedule.now() - startedAt >= TIMES.timeoutMs ? 'the deadline is over' : null
      const refused = late ?? (signal?.aborted ? 'ended' : gate())
      if (refused !== null) {
        const unsent = { phase: 'not_sent', error: refused } as const
        return { kind: 'not_executed', refund: true, written: false, retryAfterMs: null, evidence: unsent }
      }
      place.onCall('before', input.payload)
      onWritten?.()
      return new Promise((settle) => {
        const callOff = () => {}
        const resolve = (outcome: Outcome) => {
          callOff()
          settle(outcome)
        }
        const unknown = (error: string) =>
          resolve({ kind: 'unknown', executed: false, retryAfterMs: null, evidence: { phase: 'unanswered', error } })
        schedule.note(`${life.name} writes the call for ${of} (${input.key?.slice(0, 8) ?? 'no key'})`)
        const message = { kind, of, key: input.key, body: prepared.body ?? '' }
        const toLife = (then: () => void) => () => schedule.later(life, `hears of ${message.of}`, 0, then)
        api.send(
          message,
          (outcome) => toLife(() => resolve(outcome))(),
          toLife(() => unknown('reset')),
        )
        schedule.later(
          life,
          `gives up on ${message.of}`,
          Math.max(0, startedAt + TIMES.timeoutMs - schedule.now()),
          () => unknown('deadline'),
        )
        signal?.addEventListener('abort', () => unknown('ended'), { once: true })
        place.onCall('after', input.payload)
      })
    },
    lookup: async ({ key, request }) => {
      await schedule.step(life, `asks for ${nameOf(request)}`)
      const found = api.find(kind, key)
      await schedule.step(life, `is told of ${found.length} for ${nameOf(request)}`)
      const ids = [...new Set(found.map(({ id }) => id))]
      if (ids.length > 1) return { kind: 'ambiguous', taskIds: ids, evidence }
      return ids[0] === undefined ? { kind: 'miss', evidence } : { kind: 'found', taskId: ids[0], evidence }
    },
    cancel: async ({ taskId }) => {
      await schedule.step(life, `cancels ${taskId}`)
      api.cancel(taskId)
      return { kind: 'canceled', evidence }
    },
    status: async () => ({ kind: 'pending', evidence }),
  }
}

/** A hash that was freed can be a new request's: each is owed by itself. */
export function nameOf({
  logicalHash,
  requestId,
}: {
  readonly logicalHash: string
  readonly requestId: number
}): string {
  return `${logicalHash}#${requestId}`
}
