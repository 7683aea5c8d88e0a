// After developers.openai.com/api/reference: batches are created without a key and listed newest first, page by page.
import { http } from 'msw'
import type { FakeApi, Fields } from '../support/fake-api.ts'
import { respond } from '../support/fake-api.ts'
import type { PresetCase } from '../support/preset-case.ts'
import { after, CUT, KEY, LOST, refused } from '../support/preset-case.ts'

const BATCHES = '/v1/batches'

function batchOf(id: string, fields: Fields, status: unknown = 'validating') {
  return { id, object: 'batch', status, metadata: fields['metadata'] ?? null, created_at: 1 }
}

const OTHERS = [batchOf('batch_other', { metadata: { onceish_key: 'another' } }), batchOf('batch_plain', {})]

function page(fake: FakeApi) {
  const ours = fake.effects.map(({ id, call }) => batchOf(id, call.fields)).reverse()
  const { hides = false, hasMore = false } = fake.given
  return { object: 'list', data: [...(hides ? [] : ours), ...OTHERS], has_more: hasMore }
}

export const openaiBatches: PresetCase = {
  name: 'openai-batches',
  target: 'batches',
  kind: 'lookup only',
  payload: { input_file_id: 'file-1', endpoint: '/v1/responses', completion_window: '24h', metadata: { team: 'x' } },
  env: { OPENAI_API_KEY: 'openai-secret' },
  contract: {
    origin: 'https://api.openai.com',
    path: BATCHES,
    keyOf: ({ fields }) => String((fields['metadata'] as Fields)['onceish_key']),
    idOf: (count) => `batch_${count}`,
    accept: (id, { fields }) => ({ status: 200, body: batchOf(id, fields) }),
    handlers: (fake) => [
      http.get(`https://api.openai.com${BATCHES}`, () => respond({ status: 200, body: page(fake) })),
      http.get(`https://api.openai.com${BATCHES}/:id`, ({ params }) => {
        const effect = fake.effects.find(({ id }) => id === params['id'])
        if (effect === undefined) return respond({ status: 404 })
        return respond({ status: 200, body: batchOf(effect.id, effect.call.fields, fake.given['status']) })
      }),
    ],
  },
  taskId: (fake) => fake.effects[0]?.id ?? null,
  sent: { input_file_id: 'file-1', metadata: { team: 'x', onceish_key: KEY } },
  afterCrash: { state: 'submitted', taskId: 'shown' },
  answers: [
    { says: 'was cut off is looked up by the metadata', mishaps: [CUT], state: 'submitted', calls: 1 },
    {
      says: 'is a 500 after the effect is looked up by the metadata',
      mishaps: [after(500)],
      state: 'submitted',
      calls: 1,
    },
    {
      says: 'was cut off is looked up also on a page with more after it',
      mishaps: [CUT],
      given: { hasMore: true },
      state: 'submitted',
      calls: 1,
    },
    {
      says: 'never came is called again once the whole list lacked it three times',
      mishaps: [LOST],
      state: 'submitted',
      calls: 2,
      keys: 'same',
    },
    {
      says: 'never came is never called again where the page is not the whole list',
      mishaps: [LOST],
      given: { hasMore: true },
      deadlineMs: 700,
      state: 'held',
      reason: 'deadline',
      calls: 1,
      effects: 0,
    },
    {
      says: 'was cut off is never called again, whatever the list lacks',
      mishaps: [CUT],
      given: { hides: true },
      state: 'held',
      reason: 'executed_without_id',
      calls: 1,
    },
    {
      says: 'comes from the limiter (429) was not executed',
      mishaps: [refused(429, { error: { code: 'rate_limit_exceeded' } }, { 'x-ratelimit-reset-requests': '20ms' })],
      state: 'submitted',
      calls: 2,
      keys: 'same',
    },
    {
      says: 'is a 400 ends the request',
      mishaps: [refused(400, { error: { code: 'invalid_request' } })],
      state: 'dead',
      reason: 'rejected',
      calls: 1,
      effects: 0,
    },
  ],
  tracked: [
    { given: { status: 'completed' }, state: 'succeeded' },
    { given: { status: 'expired' }, state: 'failed' },
  ],
}
