// A store on a real file and the smallest target world around it, for tests that drive turns by hand.
import type { Outcome } from '../../src/core/outcome.ts'
import { NO_POLICY, type TargetPolicy } from '../../src/core/policy.ts'
import type { AttemptResult } from '../../src/core/settlement.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { EnqueueResult, NewRequest, Store } from '../../src/store/store.ts'
import type { ClaimedCall, TurnInput, TurnResult, WorkerLife } from '../../src/store/turn.ts'
import { ALIKE, NOTHING_SAID } from './alike.ts'
import { newLocation } from './engine.ts'
import { hashRequest } from './hash-request.ts'

export const KEYED: TargetPolicy = {
  ...NO_POLICY,
  timeoutMs: 1000,
  retry: { maxAttempts: 3, initialMs: 100, maxMs: 1000 },
  recovery: ['replay', 'hold'],
  key: {
    clientId: false,
    rememberedForMs: 86_400_000,
    marginMs: 3_600_000,
    arrivalMs: 1000,
    failedFirst: 'unknown',
    maxReplays: 3,
  },
}

export const OPAQUE: TargetPolicy = { ...NO_POLICY, timeoutMs: 1000, retry: KEYED.retry }

export const LOOKUP: TargetPolicy = {
  ...OPAQUE,
  recovery: ['lookup', 'hold'],
  lookup: {
    settleMs: 5000,
    everyMs: 1000,
    misses: 2,
    missMeans: 'absent',
    remembersMs: 86_400_000,
    dependsOnKey: true,
  },
}

/** Without those whose deadline is over. */
export type Taken = Exclude<EnqueueResult, { kind: 'expired' }>

export interface World {
  readonly store: Store
  readonly path: string
  readonly clock: { now: number }
  enqueue(payload: unknown, options?: Partial<NewRequest>): Promise<Taken>
  turn(options?: TurnOptions): Promise<TurnResult>
}

/** What a test says of a turn. */
export interface TurnOptions extends Partial<Omit<TurnInput, 'claim' | 'check'>> {
  readonly slots?: number
  readonly lookFrom?: string | null
  readonly claim?: Partial<TurnInput['claim']>
  readonly investigations?: number
  readonly room?: ReadonlyMap<string, number>
}

export async function openWorld(
  options: { policies?: Record<string, TargetPolicy>; path?: string; worker?: WorkerLife; now?: number } = {},
): Promise<World> {
  const path = options.path ?? newLocation()
  const clock = { now: options.now ?? 1_000_000 }
  const policies = options.policies ?? { keyed: KEYED, opaque: OPAQUE, lookup: LOOKUP }
  const store = await openStore(path, { create: true, now: clock.now, isTimeGiven: true })
  const worker = options.worker ?? { name: 'w', boot: 'b1' }
  return {
    store,
    path,
    clock,
    enqueue: async (payload, request = {}) => {
      const target = request.target ?? 'keyed'
      const hashes = hashRequest({ target, payload })
      const base: NewRequest = {
        target,
        payload: JSON.stringify(payload),
        ...hashes,
        priority: 0,
        dueAt: null,
        orderingKey: null,
        group: null,
        dedupe: 'always',
        expiresAt: null,
      }
      const [result] = await store.enqueue([{ ...base, ...request }], clock.now)
      return result as Taken
    },
    turn: ({ slots = 0, lookFrom = null, claim, investigations = 0, room = new Map(), ...input } = {}) =>
      store.turn({
        now: () => clock.now,
        steady: { now: () => clock.now, hear: () => {}, isNews: () => false },
        worker,
        leaseMs: 10_000,
        ...NOTHING_SAID,
        claim: {
          ...ALIKE,
          slots,
          lookFrom,
          targets: Object.entries(policies).map(([name, policy]) => ({ name, policy })),
          prepare: (request) => ({
            kind: 'prepared',
            key: policies[request.target]?.key ? `key-${request.requestId}-${request.generation}` : null,
            call: {
              method: 'POST',
              url: 'http://127.0.0.1/',
              headers: {},
              body: request.payload,
              account: null,
            },
            targetVersion: 'v1',
          }),
          ...claim,
        },
        check: { slots: investigations, room },
        policyOf: (target) => policies[target],
        random: () => 0,
        ...input,
      }),
  }
}

export function answer(call: ClaimedCall, outcome: Outcome, endedAt = 1_000_000): AttemptResult {
  const { requestId, target, attempt, nonce, key } = call
  return { requestId, target, attempt, nonce, idempotencyKey: key, outcome, endedAt }
}

export const accepted = (taskId: string): Outcome => ({
  kind: 'accepted',
  taskId,
  evidence: { phase: 'answered', status: 200 },
})
export const unknown = (executed = false): Outcome => ({
  kind: 'unknown',
  executed,
  retryAfterMs: null,
  evidence: { phase: 'unanswered', error: 'ECONNRESET' },
})
export const notExecuted = (refund = false): Outcome => ({
  kind: 'not_executed',
  refund,
  written: true,
  retryAfterMs: null,
  evidence: { phase: 'answered', status: 425 },
})
export const rejected: Outcome = { kind: 'rejected', evidence: { phase: 'answered', status: 400 } }
export const blocked: Outcome = { kind: 'blocked', evidence: { phase: 'answered', status: 401 } }
