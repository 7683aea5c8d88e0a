import { describe, expect, it } from 'vitest'
import { isOnceishError } from '../../../src/core/errors.ts'
import type { PreparedCall } from '../../../src/core/prepared-call.ts'
import { fingerprintOf } from '../../../src/core/prepared-call.ts'
import { createHttpTarget } from '../../../src/target/http/http-target.ts'
import type { PrepareInput } from '../../../src/target/target.ts'
import { type DefinitionParts, definitionOf, inputOf } from '../support/definition.ts'

const KEY = 'c0ffee00-0000-4000-8000-000000000001'
const ENV = { API_KEY: 't0ken-value' }

function prepare(
  parts: DefinitionParts,
  input: Partial<PrepareInput> = {},
  env: Record<string, string> = ENV,
): PreparedCall {
  return createHttpTarget(definitionOf(parts), { env }).prepare(inputOf(input))
}

function failureOf(parts: DefinitionParts, input: Partial<PrepareInput> = {}): string {
  try {
    prepare(parts, input)
  } catch (error) {
    if (isOnceishError(error)) return `${error.code}: ${error.message}`
    throw error
  }
  throw new Error('it did not fail')
}

describe('the body of a prepared call', () => {
  it('is the enqueued text, byte for byte, where it is the payload', () => {
    const payload = '{"b": 1.0,\n "a":9007199254740993, "é": "\\u0041"}'
    expect(prepare({}, { payload })).toMatchObject({
      method: 'POST',
      body: payload,
      headers: { 'content-type': 'application/json' },
    })
  })

  it('is JSON of what the template yields, large numbers as text', () => {
    const template = { ref: '{% $key %}', inner: ['{% $payload.n %}', true, null, 'as it is'] }
    const { body } = prepare({ submit: { body: { kind: 'json', template } } }, { payload: '{"n":9007199254740993}' })
    expect(body).toBe(`{"ref":"${KEY}","inner":["9007199254740993",true,null,"as it is"]}`)
  })

  it('is a form, empty fields left out and arrays repeated', () => {
    const template = {
      key: '{% $key %}',
      text: '{% $payload.text %}',
      none: '{% $payload.none %}',
      tag: ['a b', '&=é'],
    }
    const { body, headers } = prepare({ submit: { body: { kind: 'form', template } } }, { payload: '{"text":"x y+z"}' })
    expect(body).toBe(`key=${KEY}&text=x+y%2Bz&tag=a+b&tag=%26%3D%C3%A9`)
    expect(headers['content-type']).toBe('application/x-www-form-urlencoded')
  })

  it('is text', () => {
    const call = prepare({ submit: { body: { kind: 'text', template: 'job {% $payload.n %} of {% $key %}' } } })
    expect(call).toMatchObject({ body: `job 1 of ${KEY}`, headers: { 'content-type': 'text/plain; charset=utf-8' } })
  })

  it('is nothing where there is none', () => {
    const call = prepare({ submit: { method: 'PUT', body: { kind: 'none', template: null } } })
    expect(call).toMatchObject({ method: 'PUT', body: null, headers: {} })
  })

  it.each<[string, DefinitionParts['submit'], string]>([
    ['a JSON body of nothing', { body: { kind: 'json', template: '{% $payload.none %}' } }, 'the body'],
    ['a form field that is an object', { body: { kind: 'form', template: { a: { b: 1 } } } }, 'form field "a"'],
    ['a text that is an object', { body: { kind: 'text', template: '{% $payload %}' } }, 'the body'],
    ['an expression that fails', { body: { kind: 'json', template: "{% $number('x') %}" } }, 'the body'],
    ['a header that is an object', { headers: { 'X-A': '{% $payload %}' } }, 'header "x-a"'],
  ])('is refused for %s', (_, submit, part) => {
    const message = failureOf({ submit: submit ?? {} })
    expect(message).toContain('RENDER_FAILED: target "transcribe": submit')
    expect(message).toContain(part)
  })
})

describe('the headers of a prepared call', () => {
  it('have lower-case names, and leave out what yields nothing', () => {
    const headers = { 'X-Ref': '{% $key %}', 'X-None': '{% $payload.none %}', 'Content-Type': 'application/vnd.x+json' }
    expect(prepare({ submit: { headers } }).headers).toEqual({ 'x-ref': KEY, 'content-type': 'application/vnd.x+json' })
  })

  it.each(['a\r\nx-evil: 1', 'a\nb', 'a\0b', 'snowman \u2603'])('are refused for the value %j', (text) => {
    const message = failureOf(
      { submit: { headers: { 'X-A': '{% $payload.text %}' } } },
      { payload: JSON.stringify({ text }) },
    )
    expect(message).toContain('RENDER_FAILED')
    expect(message).toContain('header "x-a"')
  })

  it('and the body hold no secret, even where a description that slipped through asks for it', () => {
    const body = { kind: 'json', template: { token: '{% $env.API_KEY %}' } } as const
    expect(JSON.stringify(prepare({ submit: { body } }))).not.toContain('t0ken')
  })

  it('hold no secret', () => {
    const call = prepare({ submit: { headers: { Authorization: "{% 'Bearer ' & $env.API_KEY %}" } } })
    expect(call.headers).not.toHaveProperty('authorization')
    expect(JSON.stringify(call)).not.toContain('t0ken')
  })
})

describe('the key of a prepared call', () => {
  it('stands in its own header', () => {
    expect(prepare({ idempotency: {} }).headers['idempotency-key']).toBe(KEY)
  })

  it('is quoted where the header is a structured field', () => {
    const call = prepare({ idempotency: { format: { kind: 'sf-string', length: 36 } } })
    expect(call.headers['idempotency-key']).toBe(`"${KEY}"`)
  })

  it('stands in body, query and path at once', () => {
    const { url, body } = prepare({
      idempotency: { header: null },
      submit: {
        url: 'http://127.0.0.1:1/jobs/{% $key %}?ref={% $key %}',
        body: { kind: 'json', template: { k: '{% $key %}' } },
      },
    })
    expect(url).toBe(`http://127.0.0.1:1/jobs/${KEY}?ref=${KEY}`)
    expect(body).toBe(`{"k":"${KEY}"}`)
  })
})

describe('the URL of a prepared call', () => {
  it.each(['../../admin', 'a/b', '?x=1', '#f', '@evil.example', 'é &='])(
    'takes in %s without changing its place',
    (text) => {
      const url = 'http://127.0.0.1:1/jobs/{% $payload.text %}/run'
      const call = prepare({ submit: { url } }, { payload: JSON.stringify({ text }) })
      expect(call.url).toBe(`http://127.0.0.1:1/jobs/${encodeURIComponent(text)}/run`)
    },
  )
})

describe('the fingerprint of a prepared call', () => {
  it('is the same for the same call, and another for another', () => {
    const print = (parts: DefinitionParts, input?: Partial<PrepareInput>) => fingerprintOf(prepare(parts, input))
    const first = print({})
    expect(first).toMatch(/^[0-9a-f]{64}$/)
    expect(print({})).toBe(first)
    expect(print({}, { payload: '{"n":2}' })).not.toBe(first)
    expect(print({ submit: { method: 'PUT' } })).not.toBe(first)
    expect(print({ submit: { url: 'http://127.0.0.1:1/other' } })).not.toBe(first)
    expect(print({ submit: { headers: { 'x-a': 'b' } } })).not.toBe(first)
  })

  it('does not depend on secrets', () => {
    const parts = { submit: { headers: { authorization: '{% $env.API_KEY %}' } } }
    expect(fingerprintOf(prepare(parts, {}, { API_KEY: 'another' }))).toBe(fingerprintOf(prepare(parts)))
  })
})

describe('the account of a prepared call', () => {
  const parts = { submit: { headers: { authorization: '{% $env.API_KEY %}' } } }

  it('is what the target says, else a print of its credentials, else unknown', () => {
    expect(prepare({ ...parts, account: 'acme' }).account).toBe('acme')
    expect(prepare(parts).account).toMatch(/^[0-9a-f]{16}$/)
    expect(prepare({}).account).toBeNull()
  })

  it('tells credentials apart, whatever the request', () => {
    expect(prepare(parts, { payload: '{"n":2}' }).account).toBe(prepare(parts).account)
    expect(prepare(parts, {}, { API_KEY: 'another' }).account).not.toBe(prepare(parts).account)
    expect(prepare({ ...parts, name: 'other' }).account).not.toBe(prepare(parts).account)
  })

  it('and the origin must be the present ones', () => {
    const target = createHttpTarget(definitionOf(parts), { env: ENV })
    const call = target.prepare(inputOf())
    expect(target.sameOrigin(call)).toBe(true)
    expect(target.sameOrigin({ ...call, url: 'http://127.0.0.1:2/jobs' })).toBe(false)
    expect(target.sameOrigin({ ...call, account: 'other' })).toBe(false)
    expect(createHttpTarget(definitionOf(parts), { env: { API_KEY: 'another' } }).sameOrigin(call)).toBe(false)
  })
})
