// What this worker's config says of the ranking of its targets' queues. It is said once, at the start: the newest word holds for all
// processes, so that two configs never rank one queue in two ways. Where another one holds, the log says so.
import type { Log } from '../core/log.ts'
import type { Store } from '../store/store.ts'
import type { ClaimTarget } from '../store/turn.ts'

export interface RankingNews {
  say(now: number): Promise<void>
  /** What holds by now, of the targets whose queue ages. */
  hear(agingMs: ReadonlyMap<string, number>): void
}

export function createRankingNews({
  store,
  log,
  targets,
  actor,
}: {
  readonly store: Store
  readonly log: Log
  readonly targets: readonly ClaimTarget[]
  readonly actor: string
}): RankingNews {
  const own = targets.map(({ name, policy }) => ({ target: name, agingMs: policy.agingMs }))
  const ownAging = own.filter(({ agingMs }) => agingMs !== null)
  const held = new Map(own.map(({ target, agingMs }) => [target, agingMs]))

  return {
    say: async (now) => {
      for (const { target, agingMs, formerMs } of await store.rank(own, now, actor))
        log.info(
          { target, agingMs, formerMs },
          `the queue of ${target} is ranked ${byWhat(agingMs)}, and was ${byWhat(formerMs)}`,
        )
    },
    hear: (agingMs) => {
      if (agingMs.size === 0 && ownAging.length === 0) return
      for (const { target, agingMs: wanted } of own) {
        const holds = agingMs.get(target) ?? null
        if (holds === held.get(target)) continue
        held.set(target, holds)
        const told = { target, agingMs: holds, configured: wanted }
        if (holds === wanted) log.info(told, `the queue of ${target} is ranked ${byWhat(holds)} again`)
        else
          log.warn(
            told,
            `the queue of ${target} is ranked ${byWhat(holds)}, by the word of a worker that started later; the config of this one says ${byWhat(wanted)}`,
          )
      }
    },
  }
}

function byWhat(agingMs: number | null): string {
  return agingMs === null ? 'by priority alone' : `by priority and age (${agingMs} ms a step)`
}
