// After www.twilio.com/docs/api/errors: 20500 may have sent it, 20429 never has.
import type { PresetCase } from '../support/preset-case.ts'
import { after, CUT, LOST, refused } from '../support/preset-case.ts'

export const twilio: PresetCase = {
  name: 'twilio',
  target: 'messages',
  kind: 'opaque',
  payload: { to: '+15550100', from: '+15550199', body: 'Your code is 1 & 2' },
  env: { TWILIO_ACCOUNT_SID: 'AC00000000000000000000000000000000', TWILIO_AUTH_TOKEN: 'twilio-secret' },
  contract: {
    origin: 'https://api.twilio.com',
    path: '/2010-04-01/Accounts/AC00000000000000000000000000000000/Messages.json',
    keyOf: () => null,
    idOf: (count) => `SM${count}`,
    accept: (sid) => ({ status: 201, body: { sid, status: 'queued' } }),
  },
  taskId: (fake) => fake.effects[0]?.id ?? null,
  sent: { To: '+15550100', From: '+15550199', Body: 'Your code is 1 & 2' },
  afterCrash: { state: 'held', taskId: null },
  answers: [
    {
      says: 'is a 500 after the effect is never asked for again',
      mishaps: [after(500, { code: 20_500 })],
      state: 'held',
      reason: 'opaque',
      calls: 1,
    },
    { says: 'was cut off is held', mishaps: [CUT], state: 'held', reason: 'opaque', calls: 1 },
    { says: 'never came is held', mishaps: [LOST], state: 'held', reason: 'opaque', calls: 1, effects: 0 },
    {
      says: 'is a 429 was never processed, as often as it comes',
      mishaps: Array(12).fill(refused(429, { code: 20_429 }, { 'retry-after': '0' })),
      state: 'submitted',
      calls: 13,
    },
    {
      says: 'is a 503 with Retry-After proves nothing here',
      mishaps: [after(503, undefined, { 'retry-after': '0' })],
      state: 'held',
      reason: 'opaque',
      calls: 1,
    },
    {
      says: 'is a 201 without a sid holds the request',
      mishaps: [after(201, { status: 'queued' })],
      state: 'held',
      reason: 'opaque',
      calls: 1,
    },
    {
      says: 'is a 400 ends the request',
      mishaps: [refused(400, { code: 21_211 })],
      state: 'dead',
      reason: 'rejected',
      calls: 1,
      effects: 0,
    },
    {
      says: 'is a 401 pauses the target',
      mishaps: [refused(401, { code: 20_003 })],
      state: 'ready',
      reason: 'blocked',
      calls: 1,
      effects: 0,
    },
  ],
}
