// After learn.microsoft.com/azure/databricks/kb/jobs/jobs-idempotency and the Jobs API's words on idempotency_token.
import type { PresetCase } from '../support/preset-case.ts'
import { after, CUT, KEY, LOST, refused } from '../support/preset-case.ts'

export const databricks: PresetCase = {
  name: 'databricks',
  target: 'runs',
  kind: 'keyed',
  payload: { run_name: 'nightly', tasks: [{ task_key: 'a' }] },
  env: { DATABRICKS_TOKEN: 'databricks-secret' },
  contract: {
    origin: 'https://my-workspace.cloud.databricks.com',
    path: '/api/2.1/jobs/runs/submit',
    keyOf: ({ fields }) => String(fields['idempotency_token']),
    // Beyond 2^53, where a double would lose the last digit.
    idOf: (count) => `90071992547409930${count}`,
    accept: (id) => ({ status: 200, json: `{"run_id":${id}}` }),
    repeat: (first) => first,
  },
  taskId: (fake) => fake.effects[0]?.id ?? null,
  sent: { run_name: 'nightly', idempotency_token: KEY },
  afterCrash: { state: 'submitted', taskId: 'shown' },
  answers: [
    {
      says: 'was cut off is asked for again, and every repeat names the same run',
      mishaps: [CUT],
      state: 'submitted',
      calls: 2,
      keys: 'same',
    },
    {
      says: 'is a 500 without an effect is repeated under its token until it succeeds',
      mishaps: [refused(500), LOST],
      state: 'submitted',
      calls: 3,
      keys: 'same',
    },
    {
      says: 'is a 503 with Retry-After after the effect is repeated under its token',
      mishaps: [after(503, undefined, { 'retry-after': '0' })],
      state: 'submitted',
      calls: 2,
      keys: 'same',
    },
    {
      says: 'comes from the limiter (429) was not executed, and the token is used again',
      mishaps: [refused(429)],
      state: 'submitted',
      calls: 2,
      keys: 'same',
    },
    {
      says: 'says that the run of the token was deleted ends the request',
      mishaps: [refused(400, { error_code: 'INVALID_PARAMETER_VALUE' })],
      state: 'dead',
      reason: 'rejected',
      calls: 1,
      effects: 0,
    },
    {
      says: 'says that the run of the token was deleted, while a call is in doubt, holds the request',
      mishaps: [CUT, refused(400, { error_code: 'INVALID_PARAMETER_VALUE' })],
      state: 'held',
      calls: 2,
      keys: 'same',
    },
  ],
}
