// An API of the five kinds, as badly behaved as its contract allows: messages arrive late, answers are lost or late, keys
// expire, lists lag, are cut and forget. It knows the truth: every effect is counted here.
import type { Outcome } from '../../src/core/outcome.ts'
import { type Chance, tempered, type Weights } from './chance.ts'
import type { Schedule } from './schedule.ts'

export type Kind = 'keyed' | 'stores' | 'named' | 'listed' | 'opaque'

/** In ms; what the targets' policies assume of it. */
export const TIMES = {
  timeoutMs: 500,
  leaseMs: 1500,
  arrivalMs: 300,
  lagMs: 300,
  settleMs: 700,
  everyMs: 200,
  rememberedMs: 10_000,
  marginMs: 2200,
  deadlineMs: 20_000,
} as const

export interface Effect {
  readonly kind: Kind
  /** The name of the request that it was for. */
  readonly of: string
  readonly id: string
  readonly key: string | null
  readonly at: number
  /** From when on lists show it. */
  readonly shownAt: number
  isCanceled: boolean
  /** No list shows it any more. */
  isForgotten: boolean
}

export interface Message {
  readonly kind: Kind
  readonly of: string
  readonly key: string | null
  readonly body: string
}

type Mood =
  | 'well'
  | 'refuses'
  | 'limits'
  | 'blocks'
  | 'rejects'
  | 'loses the answer'
  | 'loses the message'
  | 'gives no id'
  | 'is busy'

const CHAOS: Weights<Mood> = [
  ['well', 35],
  ['refuses', 10],
  ['limits', 8],
  ['blocks', 1],
  ['rejects', 4],
  ['loses the answer', 22],
  ['loses the message', 8],
  ['gives no id', 8],
]
/** Of an API whose limits are known: it tells them, more often than others. */
const STRICT_CHAOS: Weights<Mood> = [
  ['well', 32],
  ['refuses', 10],
  ['limits', 22],
  ['blocks', 3],
  ['rejects', 3],
  ['loses the answer', 14],
  ['loses the message', 6],
  ['gives no id', 5],
  ['is busy', 5],
]
/** In ms; null: it says no time. */
const TOLD_WAITS = [null, 200, 900, 2500, 6000] as const
/** A call in such a mood has no effect of its own. */
const HARMLESS: readonly Mood[] = ['refuses', 'limits', 'blocks', 'rejects', 'loses the message']

export interface ApiModel {
  readonly effects: readonly Effect[]
  /** Every body that came under a key, where it differed from the first. */
  readonly mismatches: readonly string[]
  isCalm: boolean
  /** Keys outlive every schedule from now on. */
  isRememberingAll: boolean
  /** The store was rebuilt or put back, so it renders anew; whether its bytes are the same is not what is asked of it then. */
  takesOtherBytes: boolean
  /** Sends; `answer` is called at most once, and never where the answer or the message is lost. `cut` when the caller sees a reset. */
  send(message: Message, answer: (outcome: Outcome) => void, cut: () => void): void
  /** Bytes are on their way that can still make an effect. */
  mayLand(of: string): boolean
  /** What a lookup shows now, several where several were made; null: only a part of the list, without ours. */
  find(kind: Kind, key: string | null): readonly Effect[] | null
  /** What it said it had done, its lists need not show for ever. */
  forget(of: string): void
  cancel(id: string): void
  /** Nobody listens where this call goes. */
  refusesConnection(): boolean
}

const evidence = { phase: 'answered', status: 200 } as const

function said(outcome: Outcome): string {
  const toldMs = 'retryAfterMs' in outcome ? outcome.retryAfterMs : null
  return toldMs === null ? outcome.kind : `${outcome.kind}, to wait ${toldMs} ms`
}

/** @param isStrict it tells how long to wait, and now and then nobody listens. */
export function createApi(schedule: Schedule, chance: Chance, isStrict: boolean): ApiModel {
  const chaos = tempered(isStrict ? STRICT_CHAOS : CHAOS, 'well', chance)
  const effects: Effect[] = []
  const mismatches: string[] = []
  const memory = new Map<string, { readonly at: number; readonly body: string; readonly outcome: Outcome }>()
  const landing = new Map<string, number>()
  const land = (of: string, more: number) => landing.set(of, (landing.get(of) ?? 0) + more)
  const api: ApiModel = {
    effects,
    mismatches,
    isCalm: false,
    isRememberingAll: false,
    takesOtherBytes: false,
    send: (message, answer, cut) => {
      const mood = api.isCalm ? 'well' : chance.weigh(chaos)
      const arrivesIn = chance.is(0.5) ? chance.below(20) : chance.below(TIMES.arrivalMs)
      if (mood === 'loses the message' || mood === 'loses the answer') {
        // A reset says nothing of whether the bytes are still on their way.
        schedule.later(null, `cuts the call for ${message.of}`, chance.below(chance.pick([20, TIMES.timeoutMs])), cut)
      }
      if (mood === 'loses the message') return
      const effect = HARMLESS.includes(mood) ? 0 : 1
      land(message.of, effect)
      schedule.later(null, `gets the call for ${message.of}: ${mood}`, arrivesIn, () => {
        land(message.of, -effect)
        const outcome = receive(message, mood)
        if (mood === 'loses the answer') return
        const answersIn = chance.is(0.85) ? chance.below(200) : chance.below(3000)
        schedule.later(null, `answers ${message.of}: ${said(outcome)}`, answersIn, () => answer(outcome))
      })
    },
    mayLand: (of) => (landing.get(of) ?? 0) > 0,
    find: (kind, key) => {
      if (!api.isCalm && chance.is(0.3)) return null
      return effects.filter(
        (effect) =>
          effect.kind === kind &&
          effect.key === key &&
          !effect.isForgotten &&
          schedule.now() >= effect.shownAt &&
          schedule.now() - effect.at < TIMES.rememberedMs,
      )
    },
    forget: (of) => {
      for (const effect of effects) if (effect.of === of) effect.isForgotten = true
    },
    cancel: (id) => {
      for (const effect of effects) if (effect.id === id) effect.isCanceled = true
    },
    refusesConnection: () => isStrict && !api.isCalm && chance.is(0.08),
  }

  function lag(): number {
    return chance.is(0.5) ? 0 : chance.below(TIMES.lagMs)
  }

  function receive(message: Message, mood: Mood): Outcome {
    // What stands in front of an API never asks it whether it knows the key.
    if (mood === 'limits') return limited(isStrict ? chance.pick(TOLD_WAITS) : null)
    if (mood === 'blocks') return { kind: 'blocked', evidence }
    const known = recall(message)
    if (known !== null) return known
    const outcome = act(message, mood)
    const isKept = outcome.kind === 'accepted' || (message.kind === 'stores' && outcome.kind === 'not_executed')
    if (message.key !== null && isKept && message.kind !== 'listed') {
      memory.set(message.key, { at: schedule.now(), body: message.body, outcome })
    }
    if (outcome.kind !== 'accepted') return outcome
    // A 503 says nothing of whether it was done.
    if (mood === 'is busy') return { kind: 'unknown', executed: false, retryAfterMs: chance.pick(TOLD_WAITS), evidence }
    return mood === 'gives no id' ? { kind: 'accepted_without_id', evidence } : outcome
  }

  function limited(retryAfterMs: number | null): Outcome {
    const told = retryAfterMs === null ? {} : { limitedBy: `Retry-After: ${retryAfterMs} ms` }
    return { kind: 'not_executed', refund: true, written: true, retryAfterMs, ...told, evidence }
  }

  function recall({ kind, key, body }: Message): Outcome | null {
    const known = key === null ? undefined : memory.get(key)
    if (known === undefined) return null
    // A resource that was made by name stays.
    const isOver = kind !== 'named' && !api.isRememberingAll && schedule.now() - known.at >= TIMES.rememberedMs
    if (isOver) return null
    if (known.body !== body && !api.takesOtherBytes) {
      mismatches.push(`${key}: ${known.body} then ${body}`)
      return { kind: 'mismatch', evidence }
    }
    return kind === 'named' ? { kind: 'exists', ours: true, taskId: key, evidence } : known.outcome
  }

  function act({ kind, of, key }: Message, mood: Mood): Outcome {
    if (mood === 'refuses') {
      return { kind: 'not_executed', refund: false, written: true, retryAfterMs: null, evidence }
    }
    if (mood === 'rejects') return { kind: 'rejected', evidence }
    const id = kind === 'named' && key !== null ? key : `task-${effects.length + 1}`
    const at = schedule.now()
    effects.push({ kind, of, id, key, at, shownAt: at + lag(), isCanceled: false, isForgotten: false })
    return { kind: 'accepted', taskId: id, evidence }
  }

  return api
}
