import { expect, test } from 'vitest'
import { parseTarget } from '../support/parse-target.ts'

const MINIMAL = { submit: { url: 'https://api.example.com/v1/jobs' }, taskId: '{% $response.body.id %}' }
const KEYED = { ...MINIMAL, idempotency: { header: 'Idempotency-Key', rememberedFor: '24h' } }
const LOOKUP = { url: 'https://api.example.com/v1/jobs?ref={% $key %}', taskId: '{% $response.body.data.id %}' }
const NO_BODY = { kind: 'none', template: null }

test('what a target leaves out has these defaults', () => {
  expect(parseTarget('minimal', MINIMAL)).toEqual({
    name: 'minimal',
    submit: {
      method: 'POST',
      url: 'https://api.example.com/v1/jobs',
      headers: {},
      body: { kind: 'json', template: '{% $payload %}' },
      timeoutMs: 30_000,
      connectMs: 10_000,
      headersMs: 30_000,
      bodyMs: 30_000,
      maxResponseBytes: 1_048_576,
      connection: 'fresh',
    },
    idempotency: null,
    taskId: '{% $response.body.id %}',
    success: [200, 201, 202],
    outcomes: [],
    existsOurs: null,
    lookup: null,
    recovery: ['hold'],
    retry: { maxAttempts: 8, initialMs: 1000, maxMs: 300_000 },
    deadlineMs: 86_400_000,
    limits: { concurrency: null, rate: null },
    rateLimit: { statuses: [429], headers: ['Retry-After'] },
    cancel: null,
    status: null,
    dedupe: 'always',
    account: null,
  })
})

test('what an idempotency section leaves out has these defaults', () => {
  const { idempotency, submit, recovery } = parseTarget('keyed', KEYED)
  expect(idempotency).toEqual({
    clientId: false,
    header: 'Idempotency-Key',
    format: { kind: 'uuid', length: 36 },
    rememberedForMs: 86_400_000,
    marginMs: 8_640_000,
    arrivalMs: 30_000,
    failedFirst: 'unknown',
    maxReplays: 20,
  })
  expect(submit.connection).toBe('reuse')
  expect(recovery).toEqual(['replay', 'hold'])
})

test('what a lookup leaves out has these defaults', () => {
  const { lookup, submit, recovery } = parseTarget('looked', { ...KEYED, lookup: LOOKUP })
  expect(lookup).toEqual({
    method: 'GET',
    url: LOOKUP.url,
    headers: {},
    body: NO_BODY,
    timeoutMs: 30_000,
    taskId: LOOKUP.taskId,
    complete: false,
    found: null,
    absent: null,
    settleMs: 60_000,
    everyMs: 60_000,
    misses: 2,
    missMeans: 'hold',
    remembersMs: null,
  })
  expect(submit.connection).toBe('reuse')
  expect(recovery).toEqual(['lookup', 'replay', 'hold'])
})

test('lookups are spaced by the settle time, and by a second at least', () => {
  const every = (settleMs: unknown) => parseTarget('t', { ...KEYED, lookup: { ...LOOKUP, settleMs } }).lookup?.everyMs
  expect(every('5m')).toBe(300_000)
  expect(every(10)).toBe(1000)
})

test('the margin is a tenth of the window, and a minute at least', () => {
  const margin = (rememberedFor: unknown) =>
    parseTarget('t', { ...KEYED, idempotency: { header: 'K', rememberedFor } }).idempotency?.marginMs
  expect(margin('7d')).toBe(60_480_000)
  expect(margin('9m')).toBe(60_000)
  expect(margin('forever')).toBe(60_000)
  expect(margin(undefined)).toBe(60_000)
})

test('a key whose window is unknown is never replayed, and without a lookup each submit dials', () => {
  const target = parseTarget('t', { ...MINIMAL, idempotency: { header: 'K' } })
  expect(target.idempotency?.rememberedForMs).toBeNull()
  expect(target.recovery).toEqual(['hold'])
  expect(target.submit.connection).toBe('fresh')
})

test('`forever` stays a word', () => {
  const target = parseTarget('t', {
    ...MINIMAL,
    idempotency: { header: 'K', rememberedFor: 'forever' },
    lookup: { ...LOOKUP, missMeans: 'absent', remembers: 'forever' },
  })
  expect(target.idempotency?.rememberedForMs).toBe('forever')
  expect(target.lookup?.remembersMs).toBe('forever')
})

test.each([
  ['uuid', { kind: 'uuid', length: 36 }],
  ['hex', { kind: 'hex', length: 32 }],
  ['sf-string', { kind: 'sf-string', length: 36 }],
  [
    { kind: 'hex', length: 40 },
    { kind: 'hex', length: 40 },
  ],
  [{ kind: 'hex' }, { kind: 'hex', length: 32 }],
])('key format %j', (format, expected) => {
  const target = parseTarget('t', { ...MINIMAL, idempotency: { header: 'K', format } })
  expect(target.idempotency?.format).toEqual(expected)
})

test('taskId is null where the target says none, and the key where it is the id of the resource', () => {
  expect(parseTarget('t', { ...MINIMAL, taskId: 'none' }).taskId).toBeNull()
  const put = { submit: { method: 'put', url: 'https://a.example/x/{% $key %}' }, idempotency: { clientId: true } }
  const target = parseTarget('t', put)
  expect(target.taskId).toBe('{% $key %}')
  expect(target.submit.method).toBe('PUT')
})

test.each([
  [{ body: { a: '{% $payload.a %}' } }, { kind: 'json', template: { a: '{% $payload.a %}' } }],
  [{ body: null }, { kind: 'json', template: null }],
  [{ body: 'none' }, NO_BODY],
  [{ form: { a: 1, b: ['x'] } }, { kind: 'form', template: { a: 1, b: ['x'] } }],
  [{ text: 'id={% $payload.id %}' }, { kind: 'text', template: 'id={% $payload.id %}' }],
  [{ method: 'GET' }, NO_BODY],
])('submit %j has the body %j', (written, body) => {
  expect(parseTarget('t', { ...MINIMAL, submit: { ...MINIMAL.submit, ...written } }).submit.body).toEqual(body)
})

test.each([
  ['10/s', { count: 10, perMs: 1000, burst: 1 }],
  ['50/s', { count: 50, perMs: 1000, burst: 5 }],
  ['600/min', { count: 600, perMs: 60_000, burst: 1 }],
  ['5/h', { count: 5, perMs: 3_600_000, burst: 1 }],
  [
    { count: 100, per: '10s', burst: 20 },
    { count: 100, perMs: 10_000, burst: 20 },
  ],
  [
    { count: 1000, per: '1s' },
    { count: 1000, perMs: 1000, burst: 100 },
  ],
])('rate %j', (rate, expected) => {
  expect(parseTarget('t', { ...MINIMAL, limits: { rate } }).limits.rate).toEqual(expected)
})

test('durations may be numbers or text, header values numbers too, and side calls have their own methods', () => {
  const target = parseTarget('t', {
    ...KEYED,
    submit: { ...MINIMAL.submit, timeoutMs: '10s', connectMs: 500, headersMs: '2s', headers: { 'x-version': 2 } },
    exists: { ours: '{% $response.body.ref = $key %}' },
    outcomes: [{ when: '{% $response.status = 409 %}', is: 'exists', taskId: '{% $response.body.existing %}' }],
    cancel: { url: 'https://api.example.com/v1/jobs/{% $taskId %}' },
    status: {
      url: 'https://api.example.com/v1/jobs/{% $taskId %}',
      state: '{% $response.body.s %}',
      succeeded: ['done'],
    },
  })
  expect(target.submit).toMatchObject({ timeoutMs: 10_000, connectMs: 500, headersMs: 2000, bodyMs: 10_000 })
  expect(target.submit.headers).toEqual({ 'x-version': '2' })
  expect(target.existsOurs).toBe('{% $response.body.ref = $key %}')
  expect(target.outcomes[0]?.taskId).toBe('{% $response.body.existing %}')
  expect(target.cancel).toMatchObject({ method: 'DELETE', headers: {}, body: NO_BODY, timeoutMs: 30_000 })
  expect(target.status).toMatchObject({ method: 'GET', failed: [], pending: [], everyMs: 5000 })
})
