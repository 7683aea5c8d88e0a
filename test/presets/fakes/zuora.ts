// After developer.zuora.com/docs/guides: idempotent-requests, error-handling, error-codes.
import type { PresetCase } from '../support/preset-case.ts'
import { after, CUT, RUNNING, refused, saved } from '../support/preset-case.ts'

const no = (...codes: number[]) => ({ success: false, processId: 'p', reasons: codes.map((code) => ({ code })) })

export const zuora: PresetCase = {
  name: 'zuora',
  target: 'orders',
  kind: 'keyed',
  payload: { orderDate: '2026-11-01', existingAccountNumber: 'A1' },
  env: { ZUORA_ACCESS_TOKEN: 'zuora-secret' },
  contract: {
    origin: 'https://rest.zuora.com',
    path: '/v1/async/orders',
    keyOf: ({ headers }) => headers.get('idempotency-key'),
    idOf: (count) => `job-${count}`,
    accept: (jobId) => ({ status: 200, body: { jobId, success: true } }),
    repeat: (first) => first,
    busy: { status: 409, body: no(50_000_050) },
  },
  taskId: (fake) => fake.effects[0]?.id ?? null,
  sent: { orderDate: '2026-11-01', existingAccountNumber: 'A1' },
  afterCrash: { state: 'submitted', taskId: 'shown' },
  answers: [
    { says: 'was cut off is replayed under its key', mishaps: [CUT], state: 'submitted', calls: 2, keys: 'same' },
    {
      says: 'is a 409 means that the first call still runs',
      mishaps: [RUNNING],
      state: 'submitted',
      taskId: 'job-1',
      calls: 3,
      keys: 'same',
    },
    {
      says: 'is a 422 means another payload, and holds the request',
      mishaps: [refused(422, no(50_000_020))],
      state: 'held',
      reason: 'mismatch',
      calls: 1,
      effects: 0,
    },
    {
      says: 'tells of a lock, which Zuora remembers under the key, leads to a call under a new key',
      mishaps: [saved(200, no(58_730_050))],
      state: 'submitted',
      calls: 2,
      keys: 'new',
    },
    {
      says: 'is 200 and says no to the request ends it',
      mishaps: [saved(200, no(53_100_320))],
      state: 'dead',
      reason: 'rejected',
      calls: 1,
      effects: 0,
    },
    {
      says: 'is 200 and says that the tenant lacks a permission ends it',
      mishaps: [saved(200, no(53_100_010))],
      state: 'dead',
      reason: 'rejected',
      calls: 1,
      effects: 0,
    },
    {
      says: 'is 200 and says no to the credentials pauses the target',
      mishaps: [refused(200, no(90_000_011))],
      state: 'ready',
      reason: 'blocked',
      calls: 1,
      effects: 0,
    },
    {
      says: 'is 200 and says no for a lock and a reason of another kind is not called again under a new key',
      mishaps: [saved(200, no(58_730_050, 50_000_060))],
      state: 'held',
      reason: 'replays_spent',
      calls: 11,
      effects: 0,
      keys: 'same',
    },
    {
      says: 'comes from the limiter (429) was not executed, and the next call has a new key',
      mishaps: [saved(429, no(50_000_070))],
      state: 'submitted',
      calls: 2,
      keys: 'new',
    },
    {
      says: 'is a 502 after the effect is replayed under its key',
      mishaps: [after(502)],
      state: 'submitted',
      taskId: 'job-1',
      calls: 2,
      keys: 'same',
    },
  ],
}
