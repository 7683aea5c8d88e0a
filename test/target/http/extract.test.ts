import { describe, expect, it } from 'vitest'
import { parseJson, readAnswer } from '../../../src/target/http/extract.ts'
import { createRedactor } from '../../../src/target/redact.ts'
import { taskIdText } from '../../../src/target/task-id.ts'

function bodyOf(text: string, type?: string): unknown {
  const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type }
  return readAnswer({ status: 200, headers, body: Buffer.from(text) }).response.body
}

const NOTHING_SECRET = createRedactor([])

describe('reading an answer', () => {
  it.each([
    ['{"a":1}', 'application/json', { a: 1 }],
    ['{"a":1}', 'application/problem+json; charset=utf-8', { a: 1 }],
    ['\uFEFF{"a":1}', 'application/json', { a: 1 }],
    ['"t1"', 'application/json', 't1'],
    ['{"a":1}', 'text/plain', { a: 1 }],
    [' [1]', undefined, [1]],
    ['Ok.', 'text/plain', 'Ok.'],
    ['{not json', 'text/plain', '{not json'],
    ['', 'application/json', ''],
    ['id=7&x=a+b&x=c', 'application/x-www-form-urlencoded', { id: '7', x: ['a b', 'c'] }],
  ])('%s as %s', (text, type, body) => {
    expect(bodyOf(text, type)).toEqual(body)
  })

  it('knows a body that is not the JSON that it claims to be', () => {
    const answer = { status: 200, headers: { 'content-type': 'application/json' }, body: Buffer.from('<html>') }
    expect(readAnswer(answer)).toMatchObject({ readable: false, response: { body: undefined } })
  })

  it('keeps the digits of numbers that a double would lose', () => {
    const text = '{"id":9007199254740993,"n":[1234567890123456789012,1.5,1e2],"big":2.3e+500,"s":"1234567890123456789"}'
    expect(parseJson(text)).toEqual({
      id: '9007199254740993',
      n: ['1234567890123456789012', 1.5, 100],
      big: '2.3e+500',
      s: '1234567890123456789',
    })
  })

  it('takes the last of two members with one name, whichever way it parses', () => {
    expect(parseJson('{"a":1,"a":2}')).toEqual({ a: 2 })
    expect(parseJson('{"a":1,"a":2,"id":9007199254740993}')).toEqual({ a: 2, id: '9007199254740993' })
  })

  it('survives nesting without end', () => {
    expect(() => bodyOf('['.repeat(500_000), 'application/json')).not.toThrow()
    expect(() => bodyOf(`${'['.repeat(500_000)}12345678901234567890`, 'application/json')).not.toThrow()
  })
})

describe('a task id', () => {
  it.each([
    ['t1', 't1'],
    [7, '7'],
    [0, '0'],
    [9007199254740993n, '9007199254740993'],
    ['9007199254740993', '9007199254740993'],
    ['x'.repeat(1024), 'x'.repeat(1024)],
  ])('%s is %s', (value, text) => {
    expect(taskIdText(value, NOTHING_SECRET)).toBe(text)
  })

  it.each([
    [''],
    [null],
    [undefined],
    [true],
    [1.5],
    [2 ** 53],
    [{}],
    [['t1']],
    ['a\nb'],
    ['a\0b'],
    ['\ud800'],
    ['x'.repeat(1025)],
  ])('%o is none', (value) => {
    expect(taskIdText(value, NOTHING_SECRET)).toBeNull()
  })
})
