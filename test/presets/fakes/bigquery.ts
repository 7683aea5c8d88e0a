// After googleapis.dev, "Design of query retries in the BigQuery client libraries", and the error messages of BigQuery.
import { http } from 'msw'
import type { Fields } from '../support/fake-api.ts'
import { respond } from '../support/fake-api.ts'
import type { PresetCase } from '../support/preset-case.ts'
import { after, CUT, KEY, LOST, refused } from '../support/preset-case.ts'

const JOBS = '/bigquery/v2/projects/my-project/jobs'

function problem(status: number, reason: string, message: string) {
  return { status, body: { error: { code: status, message, errors: [{ reason, message }] } } }
}

function told(status: number, reason: string, message = reason) {
  return refused(status, problem(status, reason, message).body)
}

export const bigquery: PresetCase = {
  name: 'bigquery',
  target: 'jobs',
  kind: 'client id',
  payload: { configuration: { query: { query: 'SELECT 1', useLegacySql: false } } },
  env: { BIGQUERY_ACCESS_TOKEN: 'bigquery-secret' },
  contract: {
    origin: 'https://bigquery.googleapis.com',
    path: JOBS,
    keyOf: ({ fields }) => String((fields['jobReference'] as Fields)['jobId']),
    idOf: (_count, { key }) => key ?? '',
    accept: (jobId, { fields }) => ({
      status: 200,
      body: { jobReference: { ...(fields['jobReference'] as object), jobId }, status: { state: 'RUNNING' } },
    }),
    // It names the job in words, and does not show it.
    repeat: (_first, { key }) => problem(409, 'duplicate', `Already Exists: Job my-project:US.${key}`),
    handlers: (fake) => [
      http.get(`https://bigquery.googleapis.com${JOBS}/:id`, ({ params, request }) => {
        const isKnown = fake.effects.some(({ id }) => id === params['id'])
        const isThere = isKnown && new URL(request.url).searchParams.get('location') === 'US'
        if (!isThere) return respond(problem(404, 'notFound', 'Not found'))
        return respond({ status: 200, body: { status: fake.given['status'] ?? { state: 'RUNNING' } } })
      }),
    ],
  },
  taskId: (fake) => fake.effects[0]?.call.key ?? null,
  sent: {
    configuration: { query: { query: 'SELECT 1', useLegacySql: false } },
    jobReference: { projectId: 'my-project', location: 'US', jobId: KEY },
  },
  afterCrash: { state: 'submitted', taskId: 'key' },
  answers: [
    {
      says: 'was cut off is asked for again, and a 409 that names our id is the job that we made',
      mishaps: [CUT],
      state: 'submitted',
      calls: 2,
      keys: 'same',
      evidence: { status: 409 },
    },
    {
      says: 'is a 503 although the job runs is asked for again under its id',
      mishaps: [after(503)],
      state: 'submitted',
      calls: 2,
      keys: 'same',
      evidence: { status: 409 },
    },
    { says: 'never came is asked for again under its id', mishaps: [LOST], state: 'submitted', calls: 2, keys: 'same' },
    {
      says: 'is a 409 about something else than our job holds the request',
      mishaps: [told(409, 'duplicate', 'Already Exists: Table my-project:d.t')],
      state: 'held',
      reason: 'exists_not_ours',
      calls: 1,
      effects: 0,
    },
    {
      says: 'is a 403 for going too fast was not executed',
      mishaps: [told(403, 'rateLimitExceeded')],
      state: 'submitted',
      calls: 2,
      keys: 'same',
    },
    {
      says: 'is a 403 for lack of access pauses the target',
      mishaps: [told(403, 'accessDenied')],
      state: 'ready',
      reason: 'blocked',
      calls: 1,
      effects: 0,
    },
    {
      says: 'is a 400 ends the request',
      mishaps: [told(400, 'invalidQuery')],
      state: 'dead',
      reason: 'rejected',
      calls: 1,
      effects: 0,
    },
  ],
  tracked: [
    { given: { status: { state: 'DONE' } }, state: 'succeeded' },
    { given: { status: { state: 'DONE', errorResult: { reason: 'invalid' } } }, state: 'failed' },
  ],
}
