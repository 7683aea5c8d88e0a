// After developer.paypal.com/reference/guidelines/idempotency: a repeat is answered with the latest state, as 200.
import { expect } from 'vitest'
import type { PresetCase } from '../support/preset-case.ts'
import { after, CUT, LOST, refused } from '../support/preset-case.ts'

const issue = (name: string, ...issues: string[]) => ({ name, details: issues.map((one) => ({ issue: one })) })

export const paypal: PresetCase = {
  name: 'paypal',
  target: 'orders',
  kind: 'keyed',
  payload: { intent: 'CAPTURE', purchase_units: [{ amount: { currency_code: 'USD', value: '10.00' } }] },
  env: { PAYPAL_ACCESS_TOKEN: 'paypal-secret' },
  contract: {
    origin: 'https://api-m.paypal.com',
    path: '/v2/checkout/orders',
    keyOf: ({ headers }) => headers.get('paypal-request-id'),
    idOf: (count) => `ORDER${count}`,
    accept: (id) => ({ status: 201, body: { id, status: 'CREATED' } }),
    repeat: ({ body }) => ({ status: 200, body: { ...(body as object), status: 'APPROVED' } }),
  },
  taskId: (fake) => fake.effects[0]?.id ?? null,
  sent: { intent: 'CAPTURE' },
  afterCrash: { state: 'submitted', taskId: 'shown' },
  answers: [
    {
      says: 'was cut off is replayed, and the replay is a 200 with a later state of the same order',
      mishaps: [CUT],
      state: 'submitted',
      calls: 2,
      keys: 'same',
      evidence: { status: 200, body: expect.stringContaining('"APPROVED"') },
    },
    {
      says: 'never came is asked for again under its key',
      mishaps: [LOST],
      state: 'submitted',
      calls: 2,
      keys: 'same',
    },
    {
      says: 'is a 500 after the effect is replayed under its key',
      mishaps: [after(500, issue('INTERNAL_SERVER_ERROR'))],
      state: 'submitted',
      calls: 2,
      keys: 'same',
    },
    {
      says: 'says that the key was used before holds the request',
      mishaps: [refused(422, issue('UNPROCESSABLE_ENTITY', 'PAYPAL_REQUEST_ID_PREVIOUSLY_USED'))],
      state: 'held',
      reason: 'mismatch',
      calls: 1,
      effects: 0,
    },
    {
      says: 'names a duplicate request id holds the request, also with other issues beside it',
      mishaps: [refused(400, issue('DUPLICATE_REQUEST_ID', 'A', 'B'))],
      state: 'held',
      reason: 'mismatch',
      calls: 1,
      effects: 0,
    },
    {
      says: 'is a 422 for another reason ends the request',
      mishaps: [refused(422, issue('UNPROCESSABLE_ENTITY', 'AMOUNT_MISMATCH'))],
      state: 'dead',
      reason: 'rejected',
      calls: 1,
      effects: 0,
    },
    {
      says: 'comes from the limiter (429) was not executed',
      mishaps: [refused(429, issue('RATE_LIMIT_REACHED'))],
      state: 'submitted',
      calls: 2,
      keys: 'same',
    },
  ],
}
