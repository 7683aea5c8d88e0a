import { expect, test } from 'vitest'
import { canonicalJson, jsonTexts } from '../../src/core/canonical-json.ts'

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
  const refusal = expect.objectContaining({ code: 'PAYLOAD_NOT_CANONICAL', details: { path } })
  expect(() => canonicalJson(value)).toThrow(refusal)
  expect(() => jsonTexts(value)).toThrow(refusal)
})

test('a cycle ends in an error instead of the stack', () => {
  const loop: Record<string, unknown> = {}
  loop['self'] = loop
  const refusal = expect.objectContaining({ code: 'PAYLOAD_NOT_CANONICAL' })
  expect(() => canonicalJson(loop)).toThrow(refusal)
  expect(() => jsonTexts(loop)).toThrow(refusal)
})

test('nesting beyond what JSON.stringify bears, and a toJSON that throws, are refused in our words', () => {
  let deep: unknown = 0
  for (let n = 0; n < 20_000; n++) deep = [deep]
  const throwing = {
    toJSON: () => {
      throw new Error('not ours')
    },
  }
  for (const value of [deep, throwing]) {
    expect(() => jsonTexts(value)).toThrow(expect.objectContaining({ code: 'PAYLOAD_NOT_CANONICAL' }))
  }
})

/** As RFC 8785 has it, written part by part. */
function reference(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(reference).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${reference(member)}`).join(',')}}`
}

test.each([
  ['in order', { a: 1, b: { c: [1, { d: 2 }] } }],
  ['out of order', { b: 1, a: 2 }],
  ['out of order deep inside', { a: [1, [{ z: 1, y: { x: 1, w: 2 } }]], b: 3 }],
  ['numbers as names', { b: 1, 10: 1, 9: 2, '09': 3, '-1': 4 }],
  ['a name that would be a prototype', JSON.parse('{"b":1,"__proto__":{"z":1,"a":2},"a":1}')],
  ['a toJSON that is data', { z: 1, toJSON: 5, a: [{ toJSON: null }] }],
  ['no prototype', Object.assign(Object.create(null), { b: 1, a: 2 })],
  ['an empty name', { b: 1, '': 2 }],
  ['names beyond the first plane', { '\u{1F600}': 1, '\uFB33': 2 }],
  ['-0', { b: -0, a: [-0] }],
])('%s: both texts are what they should be', (_what, value) => {
  expect(jsonTexts(value)).toEqual({ text: JSON.stringify(value), canonical: reference(value) })
  expect(canonicalJson(value)).toBe(reference(value))
})

test.each([
  ['a toJSON that is called', { a: { toJSON: () => 1 } }],
  ['a hole', { a: new Array(2) }],
])('%s is refused', (_what, value) => {
  expect(() => jsonTexts(value)).toThrow(expect.objectContaining({ code: 'PAYLOAD_NOT_CANONICAL' }))
})
