// Asks what became of one submitted task, by the description that submitted it where that can still be read.
import type { Tracking } from '../core/tracking.ts'
import type { TrackedTask } from '../store/turn.ts'
import type { AbortLike, TargetRegistry } from '../target/target.ts'

export function createTracker(registry: TargetRegistry) {
  /** Never rejects. */
  return async function track({ row, description }: TrackedTask, signal?: AbortLike): Promise<Tracking> {
    const { requestId, target: name, version, taskId, logicalHash, generation, priority } = row
    const target = registry.at(name, row.targetVersion, description) ?? registry.get(name)
    const request = { requestId, logicalHash, generation, priority }
    const told = (status: Tracking['status']): Tracking => ({ requestId, target: name, version, status })
    try {
      if (target === undefined) throw new Error('nobody describes this target any more')
      return told(await target.status({ key: row.idempotencyKey, request, taskId }, signal))
    } catch (error) {
      const evidence = { phase: 'not_sent', error: String((error as Error)?.message ?? error), rule: 'status' } as const
      return told({ kind: 'undetermined', retryAfterMs: null, evidence })
    }
  }
}
