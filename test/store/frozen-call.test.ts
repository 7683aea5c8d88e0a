import { expect, test } from 'vitest'
import { freeze, thaw } from '../../src/store/sqlite/rows.ts'

const CALL = { method: 'POST', url: 'http://127.0.0.1/', headers: { a: 'b' }, account: 'acme' }

test.each([
  ['of its own', 'text', '{"n":1}'],
  ["that is the payload's text", '{"n":1}', '{"n":1}'],
  ['that is none', null, '{"n":1}'],
])('a frozen call comes back as it was, with a body %s', (_, body, payload) => {
  const frozen = freeze({ ...CALL, body }, payload)
  expect(thaw(frozen, payload)).toEqual({ ...CALL, body })
})

test('a call that an earlier release froze, with its fingerprint, comes back as it was', () => {
  const frozen = JSON.stringify(['POST', 'http://127.0.0.1/', { a: 'b' }, true, '0'.repeat(64), 'acme'])
  expect(thaw(frozen, 'text')).toEqual({ ...CALL, body: 'text' })
})
