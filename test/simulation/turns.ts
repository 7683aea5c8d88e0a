// Whose turn it was, asked of what stands in the store as the bytes of a call leave: of one ordering key no two calls overlap, and
// none is called before one of a lower id has settled.
import type { Ledger, Owed } from './owed.ts'
import type { StoreWatch } from './store-watch.ts'
import { blocksWhenDead } from './targets.ts'

/** @returns what is wrong. */
export function outOfTurn(watch: StoreWatch, ledger: Ledger, requestId: number): readonly string[] {
  const one = ledger.at(requestId)
  // A late answer under the same key can settle a request while its replay is dialled: that replay makes nothing.
  if (one.orderingKey === null || watch.stateOf(requestId) !== 'invoking') return []
  const others = ledger.all.filter(
    (other) => other !== one && !other.isGone && other.kind === one.kind && other.orderingKey === one.orderingKey,
  )
  return others.flatMap((other) => {
    // What was never claimed has no state yet.
    const state = watch.stateOf(other.requestId) ?? 'queued'
    if (state === 'invoking') return [`${one.name} and ${other.name} of one ordering key are called at once`]
    const isBefore = other.requestId < requestId && isInTheWay(other, state)
    return isBefore ? [`${one.name} is called, and ${other.name} before it is ${state}`] : []
  })
}

/** One that a person had queued again waits for whoever was called meanwhile. */
function isInTheWay(other: Owed, state: string): boolean {
  if (other.isBack) return false
  return (
    state === 'queued' || state === 'unknown' || state === 'held' || (state === 'dead' && blocksWhenDead(other.kind))
  )
}
