import { expect, test } from 'vitest'
import { canonicalJson } from '../../src/core/canonical-json.ts'

test('members are sorted by UTF-16 code units and numbers are written as RFC 8785 says', () => {
  // The example of RFC 8785, section 3.2.3, and some of its appendix B.
  const value = {
    '\u20ac': 'Euro',
    '\r': 'CR',
    '\ufb33': 'Dalet',
    '1': 'One',
    '\ud83d\ude00': 'Smile',
    '\u0080': 'C',
    '\u00f6': 'o',
  }
  expect(Object.keys(JSON.parse(canonicalJson(value)))).toEqual([
    '1',
    '\r',
    '\u0080',
    '\u00f6',
    '\u20ac',
    '\ud83d\ude00',
    '\ufb33',
  ])
  expect(canonicalJson([333333333.3333333, 1e30, 4.5, 2e-3, 1e-27, -0, 5e-324])).toBe(
    '[333333333.3333333,1e+30,4.5,0.002,1e-27,0,5e-324]',
  )
  expect(canonicalJson({ b: [true, null, 'x\n'], a: {} })).toBe('{"a":{},"b":[true,null,"x\\n"]}')
})

test.each([
  ['NaN', { a: [1, Number.NaN] }, '$.a[1]'],
  ['Infinity', { a: Number.POSITIVE_INFINITY }, '$.a'],
  ['undefined', { 'odd name': undefined }, '$["odd name"]'],
  ['BigInt', { a: 1n }, '$.a'],
  ['Date', { a: new Date(0) }, '$.a'],
  ['a class instance', new Map(), '$'],
  ['a function', { a: () => 1 }, '$.a'],
  ['a lone surrogate', { a: '\ud800' }, '$.a'],
  ['a lone surrogate in a name', { '\udc00': 1 }, '$'],
])('%s is refused with its path', (_what, value, path) => {
  expect(() => canonicalJson(value)).toThrow(
    expect.objectContaining({ code: 'PAYLOAD_NOT_CANONICAL', details: { path } }),
  )
})

test('a cycle ends in an error instead of the stack', () => {
  const loop: Record<string, unknown> = {}
  loop['self'] = loop
  expect(() => canonicalJson(loop)).toThrow(expect.objectContaining({ code: 'PAYLOAD_NOT_CANONICAL' }))
})
