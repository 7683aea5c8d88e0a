import { describe, expect, it } from 'vitest'
import type { Outcome } from '../../../src/core/outcome.ts'
import { classify, compileRules } from '../../../src/target/http/classify.ts'
import type { CallVerdict } from '../../../src/target/http/submit.ts'
import { createRedactor } from '../../../src/target/redact.ts'
import { type DefinitionParts, definitionOf } from '../support/definition.ts'

const KEY = 'c0ffee00-0000-4000-8000-000000000001'
const ERROR = { code: 'X', message: 'x' }
const NOW = Date.parse('2026-03-01T12:00:00Z')

function outcomeOf(verdict: CallVerdict, parts: DefinitionParts = {}): Outcome {
  const facts = { scope: { key: KEY, payload: { n: 1 } }, key: KEY, redactor: createRedactor([]) }
  return classify(verdict, compileRules(definitionOf(parts)), facts, NOW)
}

function answered(status: number, body: unknown = {}, headers: Record<string, string> = {}): CallVerdict {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return {
    phase: 'answered',
    answer: { status, headers: { 'content-type': 'application/json', ...headers }, body: Buffer.from(text) },
  }
}

function cut(status: number): CallVerdict {
  return { phase: 'cut', answer: { status, headers: {}, body: Buffer.from('{"id":"t') }, error: ERROR }
}

const KEYED: DefinitionParts = { idempotency: {} }
const WAIT = { 'retry-after': '7' }

describe('a status, where the target says nothing', () => {
  it.each([200, 201, 202])('%i with a readable task id is accepted', (status) => {
    expect(outcomeOf(answered(status, { id: 't1' }))).toMatchObject({ kind: 'accepted', taskId: 't1' })
  })

  it.each([400, 404, 405, 406, 410, 411, 413, 414, 415, 422, 431, 451])('%i is rejected', (status) => {
    expect(outcomeOf(answered(status, { id: 't1' }), KEYED).kind).toBe('rejected')
  })

  it.each([401, 403, 407])('%i is blocked', (status) => {
    expect(outcomeOf(answered(status), KEYED).kind).toBe('blocked')
  })

  it.each([421, 425])('%i is not executed, against the budget', (status) => {
    expect(outcomeOf(answered(status))).toMatchObject({ kind: 'not_executed', refund: false, written: true })
  })

  it('429 is not executed, the budget given back, the wait told', () => {
    const outcome = outcomeOf(answered(429, {}, WAIT))
    expect(outcome).toMatchObject({ kind: 'not_executed', refund: true, written: true, retryAfterMs: 7000 })
  })

  it('503 with a wait proves nothing, with a key or without; the wait is heard', () => {
    expect(outcomeOf(answered(503, {}, WAIT), KEYED)).toMatchObject({ kind: 'unknown', retryAfterMs: 7000 })
  })

  it.each([
    ['without a key', {}, WAIT],
    ['with a key that the API only stores', { idempotency: { rememberedForMs: null } }, WAIT],
    ['without a wait', KEYED, {}],
    ['with a wait that says nothing', KEYED, { 'retry-after': 'soon' }],
  ] as const)('503 %s is unknown', (_, parts, headers) => {
    expect(outcomeOf(answered(503, {}, headers), parts)).toMatchObject({ kind: 'unknown', executed: false })
  })

  it.each([301, 302, 303, 304, 307, 308, 402, 408, 409, 418, 428, 500, 501, 502, 504, 507, 511, 520, 599])(
    '%i is unknown',
    (status) => {
      expect(outcomeOf(answered(status, { id: 't1' }), KEYED)).toMatchObject({ kind: 'unknown', executed: false })
    },
  )

  it.each([203, 204, 206])('%i is unknown, but shows that it happened', (status) => {
    expect(outcomeOf(answered(status, ''))).toMatchObject({ kind: 'unknown', executed: true })
  })

  it('keeps where a redirect points to', () => {
    const { evidence } = outcomeOf(answered(307, '', { location: 'http://elsewhere/' }))
    expect(evidence).toMatchObject({ status: 307, headers: { location: 'http://elsewhere/' }, rule: 'default' })
    expect(evidence.note).toContain('redirects are not followed')
  })
})

describe('a success', () => {
  it.each([
    ['no id', {}],
    ['an empty id', { id: '' }],
    ['an id that is an object', { id: { a: 1 } }],
    ['a fraction for an id', { id: 1.5 }],
    ['a body that is not JSON', '<html>ok</html>'],
    ['an empty body', ''],
  ])('with %s is accepted without an id', (_, body) => {
    expect(outcomeOf(answered(200, body)).kind).toBe('accepted_without_id')
  })

  it('keeps an id above 2^53 digit by digit', () => {
    expect(outcomeOf(answered(200, '{"id":9007199254740993}'))).toMatchObject({
      kind: 'accepted',
      taskId: '9007199254740993',
    })
  })

  it('is accepted without looking where the target has no task id', () => {
    expect(outcomeOf(answered(200, 'Ok.'), { taskId: null })).toMatchObject({ kind: 'accepted', taskId: null })
  })

  it('reads an id from a header', () => {
    const parts = { taskId: "{% $response.headers.'x-message-id' %}" }
    expect(outcomeOf(answered(202, '', { 'x-message-id': 'm1' }), parts)).toMatchObject({ taskId: 'm1' })
  })

  it('is what the target says it is', () => {
    expect(outcomeOf(answered(204, ''), { success: [204], taskId: null }).kind).toBe('accepted')
    expect(outcomeOf(answered(200, { id: 't1' }), { success: [204] })).toMatchObject({
      kind: 'unknown',
      executed: true,
    })
  })

  it('is accepted without an id when the id expression fails, and says so', () => {
    const outcome = outcomeOf(answered(200, { id: 't1' }), { taskId: '{% $number($response.body.id) %}' })
    expect(outcome.kind).toBe('accepted_without_id')
    expect(outcome.evidence.note).toContain('taskId fails')
  })
})

describe('an answer that broke off', () => {
  it.each([400, 401, 429, 503])('with status %i is unknown', (status) => {
    expect(outcomeOf(cut(status), KEYED)).toMatchObject({
      kind: 'unknown',
      executed: false,
      evidence: { phase: 'cut' },
    })
  })

  it.each([200, 202, 204])('with status %i is unknown, but shows that it happened', (status) => {
    expect(outcomeOf(cut(status))).toMatchObject({ kind: 'unknown', executed: true })
  })

  it('is unknown whatever the outcome rules say', () => {
    const outcomes = [{ when: '{% true %}', is: 'rejected', taskId: null }] as const
    expect(outcomeOf(cut(500), { outcomes }).kind).toBe('unknown')
  })
})

describe('no answer', () => {
  it('after the write is unknown', () => {
    expect(outcomeOf({ phase: 'unanswered', error: ERROR })).toMatchObject({ kind: 'unknown', executed: false })
  })

  it('before the write is not executed, the budget given back', () => {
    const outcome = outcomeOf({ phase: 'not_sent', permanent: false, gate: null, error: ERROR })
    expect(outcome).toMatchObject({ kind: 'not_executed', refund: true, written: false, evidence: { error: 'X: x' } })
  })

  it('behind a closed gate is not executed, with the reason', () => {
    const outcome = outcomeOf({ phase: 'not_sent', permanent: false, gate: 'lease_short', error: ERROR })
    expect(outcome).toMatchObject({ kind: 'not_executed', refund: true, written: false })
    expect(outcome.evidence).toMatchObject({ rule: 'gate', note: 'lease_short' })
  })

  it('for a call that can never be sent is rejected', () => {
    expect(outcomeOf({ phase: 'not_sent', permanent: true, gate: null, error: ERROR }).kind).toBe('rejected')
  })
})

describe('outcome rules', () => {
  const rule = (when: string, is: Outcome['kind'], taskId: string | null = null) => ({ when, is, taskId })

  it('take the first that holds, before the defaults', () => {
    const outcomes = [
      rule("{% $response.body.code = 'other' %}", 'blocked'),
      rule("{% $response.status = 200 and $response.body.code = 'in_use' %}", 'in_flight'),
      rule('{% true %}', 'rejected'),
    ]
    const outcome = outcomeOf(answered(200, { code: 'in_use', id: 't1' }, WAIT), { outcomes })
    expect(outcome).toMatchObject({ kind: 'in_flight', retryAfterMs: 7000, evidence: { rule: 'outcomes[1]' } })
  })

  it.each(['accepted_without_id', 'rejected', 'mismatch', 'blocked'] as const)('can say %s', (is) => {
    expect(outcomeOf(answered(200, { id: 't1' }), { outcomes: [rule('{% true %}', is)] }).kind).toBe(is)
  })

  it('can say unknown of a success, which is then in doubt and may be looked up', () => {
    const outcomes = [rule('{% $exists($response.body.errors) %}', 'unknown')]
    expect(outcomeOf(answered(200, { errors: [1] }), { outcomes })).toMatchObject({ kind: 'unknown', executed: false })
  })

  it('that say not executed count against the budget, but for a rate limit', () => {
    const outcomes = [rule('{% true %}', 'not_executed')]
    expect(outcomeOf(answered(500), { outcomes })).toMatchObject({ kind: 'not_executed', refund: false, written: true })
    expect(outcomeOf(answered(429, {}, WAIT), { outcomes })).toMatchObject({ refund: true, retryAfterMs: 7000 })
  })

  it('that fail on an answer do not hold, and are noted', () => {
    const outcomes = [rule('{% $number($response.body.code) = 1 %}', 'rejected')]
    const outcome = outcomeOf(answered(200, { code: 'abc', id: 't1' }), { outcomes })
    expect(outcome).toMatchObject({ kind: 'accepted', taskId: 't1' })
    expect(outcome.evidence.note).toContain('outcomes[0].when fails')
  })

  it('hold only when they yield exactly true, and what is neither is noted', () => {
    const outcomes = [rule('{% $response.body.error %}', 'rejected')]
    const outcome = outcomeOf(answered(200, { error: 'x', id: 't1' }), { outcomes })
    expect(outcome.kind).toBe('accepted')
    expect(outcome.evidence.note).toContain('outcomes[0].when yields neither true nor false')
  })

  it('read the payload, the key and an id of their own', () => {
    const outcomes = [rule('{% $payload.n = 1 and $exists($key) %}', 'accepted', '{% $response.body.existing %}')]
    expect(outcomeOf(answered(409, { existing: 'e1' }), { outcomes })).toMatchObject({ kind: 'accepted', taskId: 'e1' })
  })

  it.each<[what: string, status: number, headers: Record<string, string>, limit: boolean, signs?: string[]]>([
    ['a 403 without a wait', 403, {}, false],
    ['a 403 with calls left', 403, { 'x-ratelimit-remaining': '9', 'x-ratelimit-reset': '60' }, false],
    ['a 403 with nothing left', 403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '60' }, true],
    ['a 403 that tells to wait', 403, WAIT, true],
    ['a 403 with a wait that is garbage', 403, { 'retry-after': 'soon' }, false],
    ['a 403 without the sign, though it tells to wait', 403, WAIT, false, ['X-Limit']],
    ['a 403 with the sign', 403, { 'x-limit': 'a' }, true, ['X-Limit']],
    ['a 403 with another value of the sign', 403, { 'x-left': '1' }, false, ['X-Limit', 'X-Left: 0']],
    ['a 403 with the value of the sign', 403, { 'x-left': '0' }, true, ['X-Limit', 'X-Left: 0']],
    ['a 401 without a wait', 401, {}, false],
    ['a 429 without a wait', 429, {}, true],
    ['a 503 without a wait', 503, {}, true],
  ])('%s is told from a refusal of the credentials', (_, status, headers, isLimit, signs) => {
    const rateLimit = { statuses: [401, 403, 429, 503], headers: ['Retry-After'], ...(signs && { signs }) }
    const outcome = outcomeOf(answered(status, {}, headers), { rateLimit })
    expect(outcome).toMatchObject(isLimit ? { kind: 'not_executed', refund: true } : { kind: 'blocked' })
  })

  it('of a rate limit the wait says which header told it, and without one nobody else waits', () => {
    const told = outcomeOf(answered(429, {}, WAIT))
    expect(told).toMatchObject({ retryAfterMs: 7000, limitedBy: 'retry-after: 7' })
    for (const headers of [{}, { 'retry-after': 'soon' }, { 'retry-after': '-1' }])
      expect(outcomeOf(answered(429, {}, headers))).not.toHaveProperty('limitedBy')
    // Too early is a statement about this one request.
    expect(outcomeOf(answered(425, {}, WAIT))).not.toHaveProperty('limitedBy')
  })

  it('of a rate limit an outcome of its own is a limit too', () => {
    const outcomes = [rule("{% $response.body.message = 'rate limit' %}", 'not_executed')]
    const rateLimit = { statuses: [403], headers: ['Retry-After'] }
    const outcome = outcomeOf(answered(403, { message: 'rate limit' }), { outcomes, rateLimit })
    expect(outcome).toMatchObject({ kind: 'not_executed', refund: true, retryAfterMs: null })
  })

  it('make other statuses rate limits', () => {
    const rateLimit = { statuses: [403], headers: ['X-Reset ms'] }
    const outcome = outcomeOf(answered(403, {}, { 'x-reset': '1500' }), { rateLimit })
    expect(outcome).toMatchObject({ kind: 'not_executed', refund: true, retryAfterMs: 1500 })
  })
})

describe('an answer that says "exists"', () => {
  const outcomes = [{ when: '{% $response.status = 409 %}', is: 'exists', taskId: null }] as const
  const named = [
    { when: '{% $response.status = 409 %}', is: 'exists', taskId: '{% $response.body.existing %}' },
  ] as const

  it('takes the id from the rule, else from the target', () => {
    const body = { id: 'error-7', existing: 'e1' }
    expect(outcomeOf(answered(409, body), { outcomes: named, ...KEYED })).toMatchObject({ taskId: 'e1' })
    expect(outcomeOf(answered(409, body), { outcomes, ...KEYED })).toMatchObject({ taskId: 'error-7' })
  })

  it('takes the key for the id where the key is the id', () => {
    const clientId = { idempotency: { clientId: true, header: null } }
    expect(outcomeOf(answered(409), { outcomes, taskId: null, ...clientId })).toMatchObject({
      kind: 'exists',
      ours: true,
      taskId: KEY,
    })
  })

  it('has no id where none can be read', () => {
    expect(outcomeOf(answered(409), { outcomes, ...KEYED })).toMatchObject({ kind: 'exists', taskId: null })
  })

  it('is ours by its key alone only where the target has one', () => {
    expect(outcomeOf(answered(409, { id: 'a' }), { outcomes, ...KEYED })).toMatchObject({ ours: true })
    expect(outcomeOf(answered(409, { id: 'a' }), { outcomes })).toMatchObject({ ours: false })
  })

  it.each([
    ['{% $response.body.ref = $key %}', { id: 'a', ref: KEY }, true],
    ['{% $response.body.ref = $key %}', { id: 'a', ref: 'another' }, false],
    ['{% $response.body.ref %}', { id: 'a', ref: 'truthy' }, false],
    ['{% $number($response.body.ref) = 1 %}', { id: 'a', ref: 'x' }, false],
    ["{% $taskId = 'a' %}", { id: 'a' }, true],
  ])('is ours by %s of %o: %s', (existsOurs, body, ours) => {
    expect(outcomeOf(answered(409, body), { outcomes, existsOurs, ...KEYED })).toMatchObject({ kind: 'exists', ours })
  })
})

describe('409 under a client-chosen id, where no rule speaks of it', () => {
  const parts: DefinitionParts = { idempotency: { clientId: true }, existsOurs: '{% $response.body.name = $key %}' }

  it('is the thing that we made where the target’s own check says so', () => {
    expect(outcomeOf(answered(409, { id: 'a', name: KEY }), parts)).toMatchObject({ kind: 'exists', ours: true })
  })

  it('is unknown where the check says no', () => {
    expect(outcomeOf(answered(409, { id: 'a', name: 'other' }), parts).kind).toBe('unknown')
  })
})
