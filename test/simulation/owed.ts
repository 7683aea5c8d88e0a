// What the world owes: one entry for each request that was enqueued and acknowledged, with what was done about it since.
import type { AttemptResult } from '../../src/core/settlement.ts'
import type { Kind } from './api-model.ts'

export interface Owed {
  readonly kind: Kind
  readonly hash: string
  readonly payload: object
  /** Of its kind, one of a key is called at a time, in the order of ids. */
  readonly orderingKey: string | null
  /** As calls and effects name it. */
  readonly name: string
  /** It kills whoever calls for it, every time. */
  readonly isPoison: boolean
  /** In the present store. */
  requestId: number
  /** Second effects that a person has accepted. */
  accepted: number
  /** Enqueues and words of a person, each of which gives it a budget of its own. */
  words: number
  /** Calls that were about to leave, but for those that cost no budget. */
  calls: number
  /** Answers whose settlement was committed. */
  answers: AttemptResult[]
  /** Its store was lost, and what was known of it: enqueued again, it may have happened already. */
  isRebuilt: boolean
  /** A person had it queued again: others of its key may have gone on meanwhile. */
  isBack: boolean
  /** Purged, or lost with its store: only its effects still count. */
  isGone: boolean
}

export interface Ledger {
  readonly all: readonly Owed[]
  /** @throws Error for a request that nobody enqueued. */
  at(requestId: number): Owed
  add(one: Pick<Owed, 'kind' | 'hash' | 'payload' | 'orderingKey' | 'isPoison' | 'requestId'>): Owed
  has(requestId: number): boolean
  /** The store is gone, and so are its request ids. */
  forgetIds(): void
  /** A copy was put back: what it does not hold is gone, what it holds is as it was. */
  keepOnly(requestIds: ReadonlySet<number>): void
  /** Enqueued again, into another store. */
  move(one: Owed, requestId: number): void
}

export function createLedger(): Ledger {
  const all: Owed[] = []
  let byId = new Map<number, Owed>()
  return {
    all,
    at: (requestId) => {
      const one = byId.get(requestId)
      if (one === undefined) throw new Error(`nobody enqueued request ${requestId}`)
      return one
    },
    add: (parts) => {
      const name = `${parts.hash}#${all.length + 1}`
      const one: Owed = {
        ...parts,
        name,
        accepted: 0,
        words: 1,
        calls: 0,
        answers: [],
        isRebuilt: false,
        isBack: false,
        isGone: false,
      }
      all.push(one)
      byId.set(one.requestId, one)
      return one
    },
    has: (requestId) => byId.has(requestId),
    forgetIds: () => {
      byId = new Map()
    },
    keepOnly: (requestIds) => {
      for (const [requestId, one] of byId) {
        one.isGone = !requestIds.has(requestId)
        one.answers = []
        one.words++
        if (one.isGone) byId.delete(requestId)
      }
    },
    move: (one, requestId) => {
      one.requestId = requestId
      one.words++
      one.answers = []
      one.isRebuilt = true
      one.isBack = false
      byId.set(requestId, one)
    },
  }
}
