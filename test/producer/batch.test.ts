import { expect, test } from 'vitest'
import { ENQUEUE_BATCH_CHARS, ENQUEUE_BATCH_LINES } from '../../src/core/limits.ts'
import { batchesOf } from '../../src/producer/batch.ts'
import type { NewRequest } from '../../src/store/store.ts'

const request = (chars: number) => ({ payload: 'x'.repeat(chars) }) as NewRequest

test('a transaction takes so many requests, and so much of payloads', () => {
  const sizesOf = (requests: readonly NewRequest[]) => [...batchesOf(requests)].map((batch) => batch.length)
  expect(sizesOf([])).toEqual([])
  expect(sizesOf(Array.from({ length: ENQUEUE_BATCH_LINES + 1 }, () => request(1)))).toEqual([ENQUEUE_BATCH_LINES, 1])
  const eighth = request(ENQUEUE_BATCH_CHARS / 8)
  expect(sizesOf(Array.from({ length: 20 }, () => eighth))).toEqual([8, 8, 4])
  // One alone goes whatever its size.
  expect(sizesOf([request(2 * ENQUEUE_BATCH_CHARS), request(1)])).toEqual([1, 1])
})
