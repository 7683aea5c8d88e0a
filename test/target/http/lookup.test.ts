import { describe, expect, it } from 'vitest'
import type { LookupDefinition } from '../../../src/config/target-definition.ts'
import type { LookupResult } from '../../../src/core/outcome.ts'
import { compileRules } from '../../../src/target/http/classify.ts'
import { classifyLookup, compileLookupRules } from '../../../src/target/http/lookup.ts'
import type { CallVerdict } from '../../../src/target/http/submit.ts'
import { createRedactor } from '../../../src/target/redact.ts'
import { definitionOf } from '../support/definition.ts'

type Rules = Partial<LookupDefinition>

function resultOf(verdict: CallVerdict, lookup: Rules = {}): LookupResult {
  const definition = definitionOf({ lookup })
  if (definition.lookup === null) throw new Error('no lookup')
  const rules = compileLookupRules(definition.lookup, compileRules(definition))
  return classifyLookup(verdict, rules, { scope: { key: 'k1' }, key: 'k1', redactor: createRedactor([]) }, 0)
}

function answered(status: number, body: unknown, headers: Record<string, string> = {}): CallVerdict {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return {
    phase: 'answered',
    answer: { status, headers: { 'content-type': 'application/json', ...headers }, body: Buffer.from(text) },
  }
}

const complete = (ids: unknown[]) => ({ data: ids.map((id) => ({ id })), has_more: false })
const BY_ID: Rules = { taskId: '{% $response.body.id %}', complete: true }

describe('a lookup', () => {
  it.each<[string, CallVerdict, Rules, object]>([
    ['one task', answered(200, complete(['t1'])), {}, { kind: 'found', taskId: 't1' }],
    [
      'one task, though more may follow',
      answered(200, { data: [{ id: 't1' }], has_more: true }),
      {},
      { kind: 'found' },
    ],
    ['a lossless id', answered(200, '{"data":[{"id":9007199254740993}]}'), {}, { taskId: '9007199254740993' }],
    ['one task twice', answered(200, complete(['t1', 't1'])), {}, { kind: 'found', taskId: 't1' }],
    ['two tasks', answered(200, complete(['t1', 't2'])), {}, { kind: 'ambiguous', taskIds: ['t1', 't2'] }],
    ['nothing, complete', answered(200, complete([])), {}, { kind: 'miss' }],
    ['nothing, with more to come', answered(200, { data: [], has_more: true }), {}, { kind: 'undetermined' }],
    ['nothing, completeness not told', answered(200, { data: [] }), {}, { kind: 'undetermined' }],
    [
      'nothing, "complete" no boolean',
      answered(200, { data: [] }),
      { complete: "{% 'yes' %}" },
      { kind: 'undetermined' },
    ],
    ['nothing, never complete', answered(200, complete([])), { complete: false }, { kind: 'undetermined' }],
    ['an unreadable id', answered(200, complete([{ a: 1 }])), {}, { kind: 'undetermined' }],
    ['an unreadable id beside a good one', answered(200, complete(['t1', ''])), {}, { kind: 'undetermined' }],
    [
      'a failing id expression',
      answered(200, complete(['x'])),
      { taskId: "{% $number('x') %}" },
      { kind: 'undetermined' },
    ],
    [
      'a failing "complete"',
      answered(200, complete([])),
      { complete: "{% $number('x') = 1 %}" },
      { kind: 'undetermined' },
    ],
    ['a body that is not JSON', answered(200, '<html>'), { complete: true }, { kind: 'undetermined' }],
    ['404 by id', answered(404, { error: 'no such job' }), BY_ID, { kind: 'miss' }],
    ['404 by id, not JSON', answered(404, '<html>'), BY_ID, { kind: 'miss' }],
    ['404, completeness not told', answered(404, {}), {}, { kind: 'undetermined' }],
    ['500', answered(500, complete([])), { complete: true }, { kind: 'undetermined' }],
    ['401', answered(401, complete([])), { complete: true }, { kind: 'undetermined' }],
    ['a redirect', answered(302, ''), { complete: true }, { kind: 'undetermined' }],
    ['400 that means absent', answered(400, {}), { absent: '{% $response.status = 400 %}' }, { kind: 'miss' }],
    [
      '200 where absent is another',
      answered(200, {}),
      { absent: '{% $response.status = 400 %}' },
      { kind: 'undetermined' },
    ],
    ['a failing "absent"', answered(404, {}), { ...BY_ID, absent: "{% $number('x') = 1 %}" }, { kind: 'undetermined' }],
    [
      '409 that means found',
      answered(409, { id: 'a' }),
      { ...BY_ID, found: '{% $response.status = 409 %}' },
      { taskId: 'a' },
    ],
    [
      '200 that is no find',
      answered(200, { id: 'a', gone: true }),
      { ...BY_ID, found: '{% false %}' },
      { kind: 'miss' },
    ],
    ['429', answered(429, {}, { 'retry-after': '9' }), {}, { kind: 'undetermined', retryAfterMs: 9000 }],
    ['503', answered(503, {}, { 'retry-after': '9' }), {}, { kind: 'undetermined', retryAfterMs: 9000 }],
    ['no answer', { phase: 'unanswered', error: { code: 'X', message: 'x' } }, BY_ID, { kind: 'undetermined' }],
    [
      'half an answer',
      {
        phase: 'cut',
        answer: { status: 200, headers: {}, body: Buffer.from('{"id":"a"}') },
        error: { code: 'X', message: 'x' },
      },
      BY_ID,
      { kind: 'undetermined' },
    ],
  ])('that gives %s', (_, verdict, rules, expected) => {
    expect(resultOf(verdict, rules)).toMatchObject(expected)
  })

  it('says why it is undetermined', () => {
    expect(resultOf(answered(500, {})).evidence).toMatchObject({ rule: 'lookup', status: 500, note: 'status 500' })
  })
})
