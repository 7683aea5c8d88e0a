// Times that a busy machine does not exceed, and doubt that does not grow too old: what a test breaks is the only reason for
// what it sees.
import type { RawConfig } from '../../support/api.ts'

const TIMES = { submit: { timeoutMs: 15_000 }, deadlineMs: '30d' }
const KEYED = { ...TIMES, idempotency: { margin: '16s' }, retry: { maxAttempts: 3 } }

export const ROOMY: RawConfig = {
  worker: { leaseMs: 20_000 },
  targets: { executions: KEYED, renders: KEYED, parcels: TIMES, messages: TIMES },
}
