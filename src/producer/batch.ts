// How much goes into one transaction, which holds it in memory several times.
import { ENQUEUE_BATCH_CHARS, ENQUEUE_BATCH_LINES } from '../core/limits.ts'
import type { NewRequest } from '../store/store.ts'

/** @param chars of their payloads. */
export function isBatchFull(requests: number, chars: number): boolean {
  return requests >= ENQUEUE_BATCH_LINES || chars >= ENQUEUE_BATCH_CHARS
}

export function* batchesOf(requests: readonly NewRequest[]): Generator<readonly NewRequest[]> {
  let batch: NewRequest[] = []
  let chars = 0
  for (const request of requests) {
    batch.push(request)
    chars += request.payload.length
    if (!isBatchFull(batch.length, chars)) continue
    yield batch
    batch = []
    chars = 0
  }
  if (batch.length > 0) yield batch
}
