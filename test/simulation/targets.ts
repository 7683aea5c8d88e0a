// The five targets of the simulated world: their policies are the product's own, their calls are the model's.
import type { Outcome } from '../../src/core/outcome.ts'
import type { CodeTargetPolicy } from '../../src/index.ts'
import type { Target } from '../../src/target/target.ts'
import { type ApiModel, type Kind, TIMES } from './api-model.ts'
import type { Chance } from './chance.ts'
import type { Library } from './library.ts'
import { FREE, type Regime } from './regimes.ts'
import type { Life, Schedule } from './schedule.ts'

export const MAX_ATTEMPTS = 2
const MAX_REPLAYS = 4
const KEY = {
  rememberedFor: TIMES.rememberedMs,
  margin: TIMES.marginMs,
  arrivalMs: TIMES.arrivalMs,
  maxReplays: MAX_REPLAYS,
} as const
const COMMON = {
  timeoutMs: TIMES.timeoutMs,
  deadlineMs: TIMES.deadlineMs,
  retry: { maxAttempts: MAX_ATTEMPTS, initialMs: 50, maxMs: 400 },
} as const

const POLICIES: Readonly<Record<Kind, CodeTargetPolicy>> = {
  keyed: { ...COMMON, idempotency: { ...KEY, failedFirst: 'reexecuted' } },
  stores: { ...COMMON, ordering: { onDead: 'continue' }, idempotency: { ...KEY, failedFirst: 'replayed' } },
  named: { ...COMMON, idempotency: { ...KEY, clientId: true, rememberedFor: 'forever' } },
  listed: {
    ...COMMON,
    idempotency: {},
    lookup: {
      settleMs: TIMES.settleMs,
      everyMs: TIMES.everyMs,
      misses: 1,
      missMeans: 'absent',
      remembers: TIMES.rememberedMs,
    },
  },
  opaque: { ...COMMON, ordering: { onDead: 'continue' } },
}

export const KINDS = Object.keys(POLICIES) as Kind[]

/** Kinds of which a dead request keeps those behind it waiting. */
export function blocksWhenDead(kind: Kind): boolean {
  return POLICIES[kind].ordering?.onDead !== 'continue'
}

/** Kinds whose API tells a repeat under the same key. */
export function tellsRepeats(kind: Kind): boolean {
  return kind === 'keyed' || kind === 'stores' || kind === 'named'
}

/** How many calls one word of a person pays for, the enqueue being the first. */
export function callsAWord(kind: Kind): number {
  return tellsRepeats(kind) ? MAX_ATTEMPTS + MAX_REPLAYS : MAX_ATTEMPTS
}

const ANYTHING = {
  '~standard': { version: 1, vendor: 'simulation', validate: (value: unknown) => ({ value }) },
} as const

export function configFor(library: Library, store: string, regime: Regime = FREE) {
  const targets = KINDS.map((name) =>
    library.defineTarget({
      name,
      version: '1',
      payload: ANYTHING,
      policy: { ...POLICIES[name], ...regime.care[name] },
      invoke: () => ({ taskId: 'the model answers' }),
      ...(name === 'listed' ? { lookup: () => ({ kind: 'absent' as const }), cancel: () => {} } : {}),
    }),
  )
  const named = Object.fromEntries(targets.map((target) => [target.name, target]))
  const worker = { concurrency: 4, leaseMs: TIMES.leaseMs, graceMs: 300 }
  const { buckets } = regime
  return library.parseConfig(
    { store, namespace: 'simulation', worker, buckets, targets: named },
    { path: null, baseDir: '/' },
  )
}

/** What the world is told of one call. */
export interface CallWatch {
  /** It is claimed; its connection is being made. */
  onDial(): void
  /** The call's bytes are about to leave. */
  onWrite(): void
  onWritten(): void
  /** It costs no budget. */
  onRefund(): void
}

export interface Place {
  readonly life: Life
  readonly schedule: Schedule
  readonly chance: Chance
  readonly api: ApiModel
  /** Differs between lives: a replay must not. */
  readonly revision: number
  /** As calls and effects name a request. */
  readonly nameOf: (requestId: number) => string
  readonly watch: (requestId: number) => CallWatch
}

const evidence = { phase: 'answered', status: 200 } as const

export function modelTarget(target: Target, place: Place): Target {
  const { life, schedule, chance, api } = place
  const kind = target.name as Kind
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
    invoke: async (prepared, { input, gate, onWritten, onLate, signal }) => {
      const startedAt = schedule.now()
      const { requestId } = input.request
      const of = place.nameOf(requestId)
      const watch = place.watch(requestId)
      watch.onDial()
      await schedule.step(life, `dials for ${of}`)
      // A process that was stopped may find its socket ready before it finds its deadline over.
      const isLate = schedule.now() - startedAt >= TIMES.timeoutMs && chance.is(0.5)
      const refused = isLate ? 'the deadline is over' : signal?.aborted ? 'ended' : gate()
      if (refused !== null) {
        schedule.note(`${life.name} does not write the call for ${of}: ${refused}`)
        const unsent = { phase: 'not_sent', error: refused } as const
        return { kind: 'not_executed', refund: true, written: false, retryAfterMs: null, evidence: unsent }
      }
      if (api.refusesConnection()) {
        schedule.note(`${life.name} gets no connection for ${of}`)
        const unsent = { phase: 'not_sent', rule: 'transport', error: 'ECONNREFUSED' } as const
        return { kind: 'not_executed', refund: true, written: false, retryAfterMs: null, evidence: unsent }
      }
      watch.onWrite()
      onWritten?.()
      return new Promise((settle) => {
        let isOver = false
        const end = (outcome: Outcome) => {
          // Code can go on beyond its deadline: what it comes to then is a late answer.
          if (isOver) onLate?.(outcome)
          else settle(outcome)
          isOver = true
        }
        const unknown = (error: string) => {
          if (!isOver)
            end({ kind: 'unknown', executed: false, retryAfterMs: null, evidence: { phase: 'unanswered', error } })
        }
        schedule.note(`${life.name} writes the call for ${of} (${input.key?.slice(0, 8) ?? 'no key'})`)
        api.send(
          { kind, of, key: input.key, body: prepared.body ?? '' },
          (outcome) =>
            schedule.later(life, `hears of ${of}`, 0, () => {
              if ('refund' in outcome ? outcome.refund : outcome.kind === 'blocked') watch.onRefund()
              end(outcome)
            }),
          () => schedule.later(life, `sees a reset for ${of}`, 0, () => unknown('reset')),
        )
        const leftMs = Math.max(0, startedAt + TIMES.timeoutMs - schedule.now())
        schedule.later(life, `gives up on ${of}`, leftMs, () => unknown('deadline'))
        signal?.addEventListener('abort', () => unknown('ended'), { once: true })
        watch.onWritten()
      })
    },
    lookup: async ({ key, request }) => {
      const of = place.nameOf(request.requestId)
      await schedule.step(life, `asks for ${of}`)
      const found = api.find(kind, key)
      await schedule.step(life, `is told of ${found?.length ?? 'a part'} for ${of}`)
      if (found === null) return { kind: 'undetermined', retryAfterMs: null, evidence }
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
