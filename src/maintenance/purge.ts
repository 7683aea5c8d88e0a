// Removes requests that have ended and payloads that were kept long enough, a step at a time with a rest after each, so that
// workers beside it go on. Doubt is no purge's to judge: what may go stands in the store's DELETE.
import { setTimeout as delay } from 'node:timers/promises'
import { OnceishError } from '../core/errors.ts'
import { CHECKED_LATER, checkedOptions, type Fields, FLAG, FUNCTION, listOf, TEXT } from '../core/given.ts'
import { ENDED_STATES, type EndedState } from '../core/task-state.ts'
import type { Store } from '../store/store.ts'
import type { KeptReason, PurgeScope, PurgeWord } from '../store/upkeep.ts'

/** What goes. */
export interface PurgeOptions {
  /** Only requests whose last change is at least so long ago. */
  readonly olderThanMs: number
  /** Default: every state in which nothing is owed. */
  readonly states?: readonly EndedState[]
  /** Default: every target, also those that the config no longer names. */
  readonly targets?: readonly string[]
  /** Also what a person abandoned in doubt. */
  readonly abandoned?: boolean
  /** Says what would go, and removes nothing. */
  readonly dryRun?: boolean
  /** After each step. */
  readonly onProgress?: (progress: PurgeProgress) => void
}

const FIELDS: Fields<PurgeOptions> = {
  olderThanMs: CHECKED_LATER,
  states: listOf(TEXT),
  targets: listOf(TEXT),
  abandoned: FLAG,
  dryRun: FLAG,
  onProgress: FUNCTION,
}

/** How far a purge is. */
export interface PurgeProgress {
  readonly purged: number
  /** Request ids: how far the walk has come, and where it ends. */
  readonly lastId: number
  readonly highestId: number
}

/** What went, and what stays although it was asked for. */
export interface PurgeReport {
  readonly purged: number
  readonly byState: Readonly<Partial<Record<EndedState, number>>>
  /** Rows of the asked targets and states that stay, by reason; those in doubt whatever was asked. */
  readonly kept: Readonly<Partial<Record<KeptReason, number>>>
  /** Kept payloads past their target's `keepPayload`. */
  readonly payloads: number
  readonly ms: number
}

export interface Purge {
  readonly store: Store
  readonly now: number
  readonly actor: string
  /** By target; targets that keep nothing have 0. */
  readonly keepPayloadMs: Readonly<Record<string, number>>
}

/** A step rests at least so long, and as long as it took: half of the time is always somebody else's. */
const LEAST_REST_MS = 5

/** @throws OnceishError USAGE for a state in which something is owed or in doubt, an age that is none, or an unknown option. */
export async function purge({ store, now, actor, keepPayloadMs }: Purge, options: PurgeOptions): Promise<PurgeReport> {
  const scope = scopeOf(checkedOptions('options of purge', options, FIELDS), now)
  const word: PurgeWord = { now, actor, dryRun: options.dryRun ?? false }
  const startedAt = performance.now()
  const byState: Partial<Record<EndedState, number>> = {}
  const kept: Partial<Record<KeptReason, number>> = {}
  let purged = 0
  let lastId = 0
  let highestId = 0
  for (let done = false; !done; ) {
    const batch = await resting(word, () => store.purgeAfter(lastId, scope, word))
    highestId ||= batch.highestId
    add(byState, batch.purged)
    add(kept, batch.kept)
    purged += sum(batch.purged)
    lastId = batch.lastId
    // What was enqueued since is too young.
    done = batch.done || lastId >= highestId
    options.onProgress?.({ purged, lastId, highestId })
  }
  const payloads = await dropPayloads(store, keepPayloadMs, scope.targets, word)
  return { purged, byState, kept, payloads, ms: Math.round(performance.now() - startedAt) }
}

function scopeOf({ olderThanMs, states, targets, abandoned }: PurgeOptions, now: number): PurgeScope {
  if (!Number.isSafeInteger(olderThanMs) || olderThanMs < 0) {
    throw new OnceishError('USAGE', `olderThanMs is a whole number of milliseconds, not ${String(olderThanMs)}`)
  }
  for (const state of states ?? []) assertEnded(state)
  return {
    before: now - olderThanMs,
    states: states ?? ENDED_STATES,
    targets: targets ?? null,
    abandoned: abandoned ?? false,
  }
}

/** @throws OnceishError USAGE naming the command that such a request waits for. */
export function assertEnded(state: string): asserts state is EndedState {
  if ((ENDED_STATES as readonly string[]).includes(state)) return
  const known = `what can be purged is ${ENDED_STATES.join(', ')}`
  const way = WAYS[state]
  throw new OnceishError('USAGE', `${state} requests are never purged${way === undefined ? '' : `: ${way}`}; ${known}`)
}

const WAYS: Readonly<Record<string, string>> = {
  held: 'say what happened with "onceish resolve" first',
  unknown: 'let "onceish recover" settle them, or "onceish resolve"',
  invoking: 'their calls are running; recovery or "onceish resolve" settles what they leave in doubt',
  ready: '"onceish cancel" them first',
  scheduled: '"onceish cancel" them first',
}

async function dropPayloads(
  store: Store,
  keepPayloadMs: Purge['keepPayloadMs'],
  targets: readonly string[] | null,
  word: PurgeWord,
): Promise<number> {
  let payloads = 0
  for (const [target, keepMs] of Object.entries(keepPayloadMs)) {
    if (targets !== null && !targets.includes(target)) continue
    for (let done = false; !done; ) {
      const step = await resting(word, () => store.dropKeptPayloads(target, word.now - keepMs, word))
      payloads += step.dropped
      done = step.done
    }
  }
  return payloads
}

async function resting<T>({ dryRun }: PurgeWord, step: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  const result = await step()
  await delay(dryRun ? 0 : Math.max(LEAST_REST_MS, performance.now() - startedAt))
  return result
}

function add<Name extends string>(sums: Partial<Record<Name, number>>, more: Readonly<Partial<Record<Name, number>>>) {
  for (const [name, count] of Object.entries(more) as [Name, number][]) sums[name] = (sums[name] ?? 0) + count
}

function sum(counts: Readonly<Partial<Record<string, number>>>): number {
  return Object.values(counts).reduce<number>((total, count) => total + (count ?? 0), 0)
}
