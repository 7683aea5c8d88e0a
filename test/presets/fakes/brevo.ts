// After developers.brevo.com: changelog/email-api-now-supports-idempotency, docs/heterogenous-versions-batch-emails.
import type { Fields } from '../support/fake-api.ts'
import type { PresetCase } from '../support/preset-case.ts'
import { after, CUT, KEY, LOST, refused, saved } from '../support/preset-case.ts'

const DUPLICATE = { status: 400, body: { code: 'duplicate_parameter', message: 'idempotencyKey' } }

export const brevo: PresetCase = {
  name: 'brevo',
  target: 'emails',
  kind: 'keyed',
  payload: { to: [{ email: 'a@example.com' }], subject: 'Hello', headers: { 'X-Campaign': 'c' } },
  env: { BREVO_API_KEY: 'brevo-secret' },
  contract: {
    origin: 'https://api.brevo.com',
    path: '/v3/smtp/email',
    keyOf: ({ fields }) => String((fields['headers'] as Fields)['idempotencyKey']),
    idOf: (count) => `<${count}@smtp-relay.example>`,
    accept: (messageId) => ({ status: 201, body: { messageId } }),
    repeat: () => DUPLICATE,
  },
  taskId: (fake) => fake.effects[0]?.id ?? null,
  sent: { subject: 'Hello', headers: { 'X-Campaign': 'c', idempotencyKey: KEY } },
  afterCrash: { state: 'submitted', taskId: 'key' },
  answers: [
    {
      says: 'was cut off is asked for again, and the duplicate that is refused was the mail',
      mishaps: [CUT],
      state: 'submitted',
      calls: 2,
      keys: 'same',
      evidence: { status: 400 },
    },
    {
      says: 'never came is asked for again under its key',
      mishaps: [LOST],
      state: 'submitted',
      calls: 2,
      keys: 'same',
    },
    {
      says: 'is a 500 after the effect is asked for again under its key',
      mishaps: [after(500)],
      state: 'submitted',
      calls: 2,
      keys: 'same',
    },
    {
      says: 'is a 503 with Retry-After after the effect is no refusal',
      mishaps: [after(503, undefined, { 'retry-after': '0' })],
      state: 'submitted',
      calls: 2,
      keys: 'same',
    },
    {
      says: 'comes from the limiter (429), and may have burned the key, leads to a call under a new key',
      mishaps: [saved(429)],
      state: 'submitted',
      taskId: '<1@smtp-relay.example>',
      calls: 2,
      keys: 'new',
    },
    {
      says: 'is a 402 for lack of credits ends the request',
      mishaps: [saved(402, { code: 'not_enough_credits' })],
      state: 'dead',
      reason: 'rejected',
      calls: 1,
      effects: 0,
    },
    {
      says: 'is a 400 for another reason ends the request',
      mishaps: [refused(400, { code: 'invalid_parameter' })],
      state: 'dead',
      reason: 'rejected',
      calls: 1,
      effects: 0,
    },
  ],
}
