// After docs.github.com: rest/actions/workflows and rest/using-the-rest-api/rate-limits-for-the-rest-api.
import type { PresetCase } from '../support/preset-case.ts'
import { after, CUT, refused } from '../support/preset-case.ts'

const PAST = { 'x-ratelimit-reset': '1000000000' }

export const githubActions: PresetCase = {
  name: 'github-actions',
  target: 'dispatches',
  kind: 'opaque',
  payload: { ref: 'main', inputs: { version: '1.2.3' } },
  env: { GITHUB_TOKEN: 'ghp_secret' },
  contract: {
    origin: 'https://api.github.com',
    path: '/repos/OWNER/REPO/actions/workflows/build.yml/dispatches',
    keyOf: () => null,
    idOf: (count) => `run-${count}`,
    accept: () => ({ status: 204 }),
  },
  taskId: () => null,
  sent: { ref: 'main', inputs: { version: '1.2.3' } },
  afterCrash: { state: 'held', taskId: null },
  answers: [
    { says: 'never came whole is held', mishaps: [CUT], state: 'held', reason: 'opaque', calls: 1 },
    { says: 'is a 502 is held', mishaps: [after(502)], state: 'held', reason: 'opaque', calls: 1 },
    {
      says: 'is a 403 with nothing left of the limit was not executed',
      mishaps: [refused(403, { message: 'API rate limit exceeded' }, { ...PAST, 'x-ratelimit-remaining': '0' })],
      state: 'submitted',
      calls: 2,
    },
    {
      says: 'is a 403 of the secondary limit was not executed, although something is left of the first',
      mishaps: [
        refused(403, { message: 'You have exceeded a secondary rate limit.' }, { 'x-ratelimit-remaining': '14' }),
        refused(403, { message: 'wait' }, { 'retry-after': '0' }),
      ],
      state: 'submitted',
      calls: 3,
    },
    {
      says: 'is a 429 was not executed',
      mishaps: [refused(429, { message: 'slow' }, { ...PAST, 'x-ratelimit-remaining': '0' })],
      state: 'submitted',
      calls: 2,
    },
    {
      says: 'is a 403 for lack of rights pauses the target',
      mishaps: [refused(403, { message: 'Resource not accessible' }, { 'x-ratelimit-remaining': '4999' })],
      state: 'ready',
      reason: 'blocked',
      calls: 1,
      effects: 0,
    },
    {
      says: 'is a 422 ends the request',
      mishaps: [refused(422, { message: 'No ref found' })],
      state: 'dead',
      reason: 'rejected',
      calls: 1,
      effects: 0,
    },
  ],
}
