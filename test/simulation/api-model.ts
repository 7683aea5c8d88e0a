// An API of the four kinds, as badly behaved as its contract allows: messages arrive late, answers are lost, keys expire,
// lists lag and forget. It knows the truth: every effect is counted here.
import type { Outcome } from '../../src/core/outcome.ts'
import type { Chance } from './chance.ts'
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
  isCanceled: boolean
}

export interface Message {
  readonly kind: Kind
  readonly of: string
  readonly key: string | null
  readonly body: string
}

type Mood = 'well' | 'refuses' | 'rejects' | 'loses the answer' | 'loses the message' | 'gives no id'

const CHAOS: Readonly<Record<Mood, number>> = {
  well: 50,
  refuses: 12,
  rejects: 3,
  'loses the answer': 20,
  'loses the message': 8,
  'gives no id': 7,
}

export interface ApiModel {
  readonly effects: readonly Effect[]
  /** Every body that came under a key, where it differed from the first. */
  readonly mismatches: readonly string[]
  isCalm: boolean
  /** Sends; `answer` is called at most once, and never where the answer or the message is lost. `cut` when the caller sees a reset. */
  send(message: Message, answer: (outcome: Outcome) => void, cut: () => void): void
  /** What a lookup shows now; several where several were made. */
  find(kind: Kind, key: string | null): readonly Effect[]
  cancel(id: string): void
}

const evidence = { phase: 'answered', status: 200 } as const

export function createApi(schedule: Schedule, chance: Chance): ApiModel {
  const effects: Effect[] = []
  const mismatches: string[] = []
  const memory = new Map<string, { readonly at: number; readonly body: string; readonly outcome: Outcome }>()
  const api: ApiModel = {
    effects,
    mismatches,
    isCalm: false,
    send: (message, answer, cut) => {
      const mood = api.isCalm ? 'well' : chance.weigh(CHAOS)
      const arrivesIn = chance.is(0.7) ? chance.below(20) : chance.below(TIMES.arrivalMs)
      if (mood === 'loses the message' || mood === 'loses the answer') {
        // A reset says nothing of whether the bytes are still on their way.
        schedule.later(null, `cuts the call for ${message.of}`, chance.below(TIMES.timeoutMs), cut)
      }
      if (mood === 'loses the message') return
      schedule.later(null, `gets the call for ${message.of}: ${mood}`, arrivesIn, () => {
        const outcome = receive(message, mood)
        if (mood === 'loses the answer') return
        schedule.later(null, `answers ${message.of}: ${outcome.kind}`, chance.below(200), () => answer(outcome))
      })
    },
    find: (kind, key) =>
      effects.filter(
        (effect) =>
          effect.kind === kind &&
          effect.key === key &&
          schedule.now() - effect.at >= chance.below(TIMES.lagMs) &&
          schedule.now() - effect.at < TIMES.rememberedMs,
      ),
    cancel: (id) => {
      for (const effect of effects) if (effect.id === id) effect.isCanceled = true
    },
  }

  function receive(message: Message, mood: Mood): Outcome {
    const known = recall(message)
    if (known !== null) return known
    const outcome = act(message, mood)
    const isKept = outcome.kind === 'accepted' || (message.kind === 'stores' && outcome.kind === 'not_executed')
    if (message.key !== null && isKept && message.kind !== 'listed') {
      memory.set(message.key, { at: schedule.now(), body: message.body, outcome })
    }
    return mood === 'gives no id' && outcome.kind === 'accepted' ? { kind: 'accepted_without_id', evidence } : outcome
  }

  function recall({ kind, key, body }: Message): Outcome | null {
    const known = key === null ? undefined : memory.get(key)
    if (known === undefined || schedule.now() - known.at >= TIMES.rememberedMs) return null
    if (known.body !== body) {
      mismatches.push(`${key}: ${known.body} then ${body}`)
      return { kind: 'mismatch', evidence }
    }
    return kind === 'named' ? { kind: 'exists', ours: true, taskId: key, evidence } : known.outcome
  }

  function act({ kind, of, key }: Message, mood: Mood): Outcome {
    if (mood === 'refuses') {
      const isLimited = chance.is(0.3)
      return { kind: 'not_executed', refund: isLimited, written: true, retryAfterMs: null, evidence }
    }
    if (mood === 'rejects') return { kind: 'rejected', evidence }
    const id = kind === 'named' && key !== null ? key : `task-${effects.length + 1}`
    effects.push({ kind, of, id, key, at: schedule.now(), isCanceled: false })
    return { kind: 'accepted', taskId: id, evidence }
  }

  return api
}
