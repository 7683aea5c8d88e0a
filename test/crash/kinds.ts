// The four kinds of API, each as the config of one target against the counting API, on a clock that the cell sets.
import type { FakeApi } from '../../src/testing.ts'

export const KINDS = ['client-id', 'keyed', 'lookup', 'opaque'] as const
export type Kind = (typeof KINDS)[number]

const DAY_MS = 86_400_000
/** So long that no call of a busy machine outlives it: the cell's clock passes it in one step. */
export const LEASE_MS = 3_600_000
/** How long the API remembers a key, a client's id, and what its list shows. */
export const REMEMBERED_MS = 30 * DAY_MS

const IDEMPOTENCY = { format: 'uuid', rememberedFor: '30d', margin: '1h' }
const TASK_ID = '{% $response.body.id %}'
/** Of real time, unlike all others: nothing answers so late. */
const TIMEOUT_MS = 20_000

export type RawConfig = Record<string, unknown>

/** The target is named like its kind. */
export function configOf(kind: Kind, api: FakeApi, store: string): RawConfig {
  return { store, worker: { leaseMs: LEASE_MS, name: 'matrix' }, targets: { [kind]: TARGETS[kind](api.url) } }
}

const TARGETS: Readonly<Record<Kind, (url: string) => RawConfig>> = {
  'client-id': (url) => ({
    submit: { method: 'PUT', url: `${url}/{% $key %}`, timeoutMs: TIMEOUT_MS },
    idempotency: { ...IDEMPOTENCY, clientId: true },
    taskId: TASK_ID,
    outcomes: [{ when: '{% $response.status = 409 %}', is: 'exists' }],
    exists: { ours: '{% $response.body.key = $key %}' },
  }),
  keyed: (url) => ({
    submit: { url, timeoutMs: TIMEOUT_MS },
    idempotency: { ...IDEMPOTENCY, header: 'Idempotency-Key' },
    taskId: TASK_ID,
  }),
  lookup: (url) => ({
    submit: { url, body: "{% $merge([$payload, { 'reference': $key }]) %}", timeoutMs: TIMEOUT_MS },
    idempotency: { format: 'uuid' },
    taskId: TASK_ID,
    lookup: {
      url: `${url}?reference={% $key %}`,
      taskId: '{% $response.body.data.id %}',
      complete: '{% $response.body.has_more = false %}',
      settleMs: '1m',
      everyMs: '10s',
      misses: 2,
      missMeans: 'absent',
      remembers: '30d',
    },
  }),
  opaque: (url) => ({ submit: { url, timeoutMs: TIMEOUT_MS }, taskId: TASK_ID }),
}
