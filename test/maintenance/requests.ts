// Requests with a kilobyte of payload each, for stores that are to be of some size.

import type { NewRequest } from '../../src/store/store.ts'
import { hashRequest } from '../support/hash-request.ts'

export const REQUESTS_A_COMMIT = 10

export function requestsFrom(first: number, count: number): NewRequest[] {
  return Array.from({ length: count }, (_, i) => {
    const payload = { pid: process.pid, n: first + i, text: 'x'.repeat(1000) }
    const hashes = hashRequest({ target: 'keyed', payload })
    const rest = {
      payload: JSON.stringify(payload),
      priority: 0,
      dueAt: null,
      orderingKey: null,
      group: null,
      dedupe: 'always' as const,
      expiresAt: null,
    }
    return { target: 'keyed', ...rest, ...hashes }
  })
}
