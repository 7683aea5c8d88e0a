// After api.slack.com/methods/chat.postMessage: refusals are HTTP 200 with ok: false.
import type { PresetCase } from '../support/preset-case.ts'
import { after, CUT, refused } from '../support/preset-case.ts'

const no = (error: string) => ({ ok: false, error })

export const slack: PresetCase = {
  name: 'slack',
  target: 'messages',
  kind: 'opaque',
  payload: { channel: 'C123ABC456', text: 'Hello' },
  env: { SLACK_BOT_TOKEN: 'xoxb-secret' },
  contract: {
    origin: 'https://slack.com',
    path: '/api/chat.postMessage',
    keyOf: () => null,
    idOf: (count) => `C123ABC456:1417671948.00000${count}`,
    accept: (id) => {
      const [channel, ts] = id.split(':')
      return { status: 200, body: { ok: true, channel, ts } }
    },
  },
  taskId: (fake) => fake.effects[0]?.id ?? null,
  sent: { channel: 'C123ABC456', text: 'Hello' },
  afterCrash: { state: 'held', taskId: null },
  answers: [
    {
      says: 'says ok: false for the channel ends the request',
      mishaps: [refused(200, no('channel_not_found'))],
      state: 'dead',
      reason: 'rejected',
      calls: 1,
      effects: 0,
    },
    {
      says: 'says ok: false for the token pauses the target',
      mishaps: [refused(200, no('token_revoked'))],
      state: 'ready',
      reason: 'blocked',
      calls: 1,
      effects: 0,
    },
    {
      says: 'says ok: false for going too fast was not executed',
      mishaps: [refused(200, no('ratelimited'))],
      state: 'submitted',
      calls: 2,
    },
    {
      says: 'is a 429 was not executed',
      mishaps: [refused(429, no('ratelimited'), { 'retry-after': '0' })],
      state: 'submitted',
      calls: 2,
    },
    {
      says: 'says ok: false for an internal error may have posted it, and is held',
      mishaps: [after(200, no('internal_error'))],
      state: 'held',
      reason: 'opaque',
      calls: 1,
      evidence: { rule: 'outcomes[3]' },
    },
    {
      says: 'says ok: false for a reason that nobody listed is held',
      mishaps: [refused(200, no('a_new_error'))],
      state: 'held',
      reason: 'opaque',
      calls: 1,
      effects: 0,
      evidence: { rule: 'outcomes[3]' },
    },
    {
      says: 'says ok: true without a ts is held',
      mishaps: [after(200, { ok: true, channel: 'C123ABC456' })],
      state: 'held',
      reason: 'opaque',
      calls: 1,
    },
    { says: 'was cut off is held', mishaps: [CUT], state: 'held', reason: 'opaque', calls: 1 },
    { says: 'is a 500 is held', mishaps: [after(500)], state: 'held', reason: 'opaque', calls: 1 },
  ],
}
