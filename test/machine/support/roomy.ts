// Times that a busy machine does not exceed: where the store is the fault, no call may end in doubt for another reason.
import type { RawConfig } from '../../support/api.ts'

const TIMEOUT = { submit: { timeoutMs: 15_000 } }
const KEYED = { ...TIMEOUT, idempotency: { margin: '16s' }, retry: { maxAttempts: 3 } }

export const ROOMY: RawConfig = {
  worker: { leaseMs: 20_000 },
  targets: { executions: KEYED, renders: KEYED, parcels: TIMEOUT, messages: TIMEOUT },
}
