// A person's word about a store that did not make its calls itself: it was put back from a copy (whatever it owes is put in
// doubt, and recovery looks into it), or only moved.
import { OnceishError } from '../core/errors.ts'
import { checkedOptions, type Fields, FLAG } from '../core/given.ts'
import type { StoreOrigin } from '../store/origin.ts'
import type { Store } from '../store/store.ts'
import type { DoubtOrder } from '../store/upkeep.ts'

/** How the word that a store was put back from a copy is said. */
export interface RestoredOptions {
  /** Also where nothing shows it (the whole disk was put back, the record of calls with it; a pg_dump was loaded into the same server), or targets are missing. */
  readonly force?: boolean
  /** Says what would be put in doubt, and does nothing. */
  readonly dryRun?: boolean
}

const FIELDS: Fields<RestoredOptions> = { force: FLAG, dryRun: FLAG }

/** What was put in doubt, or would be. */
export interface RestoredReport {
  readonly origin: StoreOrigin
  readonly doubted: number
  /** By target. */
  readonly targets: Readonly<Record<string, number>>
  /** Scheduled for later than any call that was made: surely not called. */
  readonly kept: number
}

export interface RestoredWord extends Pick<DoubtOrder, 'now' | 'actor' | 'prepare'> {
  readonly location: string
  /** The config names the target. */
  readonly isKnown: (target: string) => boolean
}

/** It can end anywhere: until it is through, the store still calls nothing, and the next run goes on. @throws OnceishError USAGE, STORE_NOT_RESTORED, TARGET_UNKNOWN */
export async function declareRestored(
  store: Store,
  word: RestoredWord,
  options: RestoredOptions,
): Promise<RestoredReport> {
  const { force = false, dryRun = false } = checkedOptions('options of declareRestored', options, FIELDS)
  const origin = await store.origin()
  if (origin.kind === 'own' && !force) {
    throw new OnceishError(
      'STORE_NOT_RESTORED',
      `nothing shows that ${word.location} was put back from a copy, and all that it owes would be put in doubt: where you know that it was (a whole disk put back, a pg_dump loaded into the same server), add --force`,
    )
  }
  const restored = origin.kind === 'restored' ? origin : null
  const knownUntil = restored?.knownUntil ?? (await store.facts()).highWaterAt
  const order: DoubtOrder = { ...word, dryRun: false, knownUntil, calledUntil: restored?.calledUntil ?? null }
  const wouldBe = await doubtAll(store, { ...order, dryRun: true })
  if (!force) refuseUnknown(wouldBe.targets, word)
  const found = dryRun ? wouldBe : await doubtAll(store, order)
  const report = { origin, ...found, doubted: Object.values(found.targets).reduce((sum, count) => sum + count, 0) }
  if (!dryRun) await store.declareOwn('store_restored', word, report)
  return report
}

async function doubtAll(store: Store, order: DoubtOrder): Promise<Pick<RestoredReport, 'targets' | 'kept'>> {
  const targets: Record<string, number> = {}
  let kept = 0
  for (let afterId = 0, done = false; !done; ) {
    const slice = await store.doubtForgotten(afterId, order)
    for (const [target, count] of Object.entries(slice.doubted)) targets[target] = (targets[target] ?? 0) + count
    kept += slice.kept
    ;({ lastId: afterId, done } = slice)
  }
  return { targets, kept }
}

/** What a forgotten call sent can be rendered only by the description of its target. */
function refuseUnknown(targets: Readonly<Record<string, number>>, { isKnown }: RestoredWord): void {
  const unknown = Object.keys(targets).filter((target) => !isKnown(target))
  if (unknown.length === 0) return
  throw new OnceishError(
    'TARGET_UNKNOWN',
    `requests of ${unknown.join(', ')} may have been called since the copy, and the config names no such target: put it back first, or add --force, and they can only be held`,
  )
}

/** @throws OnceishError STORE_NOT_RESTORED where it was not moved; nothing is put in doubt */
export async function declareMoved(
  store: Store,
  word: Pick<RestoredWord, 'now' | 'actor' | 'location'>,
): Promise<void> {
  const origin = await store.origin()
  if (origin.kind !== 'moved') {
    const why = origin.kind === 'own' ? 'is where it was' : 'has forgotten calls: say "onceish recover --restored"'
    throw new OnceishError('STORE_NOT_RESTORED', `${word.location} ${why}`)
  }
  await store.declareOwn('store_moved', word, { origin })
}
