// After docs.stripe.com/api/idempotent_requests and docs.stripe.com/error-low-level.
import type { PresetCase } from '../support/preset-case.ts'
import { after, CUT, KEY, RUNNING, refused, saved } from '../support/preset-case.ts'

const error = (type: string, code?: string) => ({ error: { type, code, message: type } })

export const stripe: PresetCase = {
  name: 'stripe',
  target: 'payment-intents',
  kind: 'keyed',
  payload: { amount: 2000, currency: 'usd', confirm: true },
  env: { STRIPE_SECRET_KEY: 'sk_test_secret' },
  contract: {
    origin: 'https://api.stripe.com',
    path: '/v1/payment_intents',
    keyOf: ({ headers }) => headers.get('idempotency-key'),
    idOf: (count) => `pi_${count}`,
    accept: (id) => ({ status: 200, body: { id, object: 'payment_intent', status: 'succeeded' } }),
    repeat: (first) => ({ ...first, headers: { 'idempotent-replayed': 'true' } }),
    busy: { status: 409, body: error('idempotency_error', 'idempotency_key_in_use') },
  },
  taskId: (fake) => fake.effects[0]?.id ?? null,
  sent: { amount: '2000', currency: 'usd', confirm: 'true', 'metadata[onceish_key]': KEY },
  afterCrash: { state: 'submitted', taskId: 'shown' },
  answers: [
    {
      says: 'was cut off is replayed under its key, and the replay is marked',
      mishaps: [CUT],
      state: 'submitted',
      calls: 2,
      keys: 'same',
      evidence: { headers: { 'idempotent-replayed': 'true' } },
    },
    {
      says: 'says that the key is in use (409) means waiting under the same key',
      mishaps: [RUNNING],
      state: 'submitted',
      taskId: 'pi_1',
      calls: 3,
      keys: 'same',
    },
    {
      says: 'says that the key came with other parameters holds the request',
      mishaps: [refused(400, error('idempotency_error'))],
      state: 'held',
      reason: 'mismatch',
      calls: 1,
      effects: 0,
    },
    {
      says: 'comes from the limiter (429) was not executed, and the next call has a new key',
      mishaps: [refused(429, error('rate_limit_error', 'rate_limit'), { 'retry-after': '0' })],
      state: 'submitted',
      calls: 2,
      keys: 'new',
    },
    {
      says: 'is a saved 500 comes again to every replay, and ends with a person, never under a new key',
      mishaps: [saved(500, error('api_error'))],
      state: 'held',
      reason: 'replays_spent',
      calls: 11,
      effects: 0,
      keys: 'same',
      evidence: { status: 500, headers: { 'idempotent-replayed': 'true' } },
    },
    {
      says: 'is a 503 with Retry-After after the effect is no refusal: its replay finds the payment',
      mishaps: [after(503, error('api_error'), { 'retry-after': '0' })],
      state: 'submitted',
      taskId: 'pi_1',
      calls: 2,
      keys: 'same',
    },
    {
      says: 'declines the card (402) ends the request',
      mishaps: [saved(402, error('card_error', 'card_declined'))],
      state: 'dead',
      reason: 'rejected',
      calls: 1,
      effects: 0,
    },
    {
      says: 'refuses the credentials (401) pauses the target',
      mishaps: [refused(401, error('invalid_request_error'))],
      state: 'ready',
      reason: 'blocked',
      calls: 1,
      effects: 0,
    },
  ],
}
