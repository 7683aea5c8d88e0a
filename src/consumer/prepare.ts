// Renders a request that is being claimed, inside the claim's transaction. A request that cannot be rendered is dead: its
// payload does not fit the description, nothing was called, and `retry` takes it back once either is mended.
import { invariant, isOnceishError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Claimable, Preparation } from '../store/turn.ts'
import type { TargetRegistry } from '../target/target.ts'

export function createPrepare(registry: TargetRegistry, namespace: string, log: Log) {
  return function prepare({
    requestId,
    target: name,
    payload,
    logicalHash,
    priority,
    generation,
  }: Claimable): Preparation {
    const target = registry.get(name)
    invariant(target !== undefined, `target ${name} was claimed and is not described`)
    const request = { requestId, logicalHash, generation, priority }
    try {
      const key = target.keyFor({ namespace, logicalHash, generation })
      const call = target.prepare({ payload, key, request })
      return { kind: 'prepared', key, call, targetVersion: target.version }
    } catch (error) {
      if (!isOnceishError(error)) log.error({ err: error, requestId }, 'rendering failed unexpectedly')
      return { kind: 'dead', reason: 'render_failed', note: (error as Error).message }
    }
  }
}
