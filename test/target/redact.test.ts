import { describe, expect, it } from 'vitest'
import { evidenceOf } from '../../src/target/http/evidence.ts'
import type { CallVerdict } from '../../src/target/http/submit.ts'
import { createRedactor, secretsOfHeader } from '../../src/target/redact.ts'

const SECRET = 'sk_live/9+a"b\\c d'

describe('redaction', () => {
  it.each([
    ['as it is', SECRET],
    ['JSON-escaped', JSON.stringify(SECRET)],
    ['with escaped slashes', JSON.stringify(SECRET).replaceAll('/', '\\/')],
    ['percent-encoded', encodeURIComponent(SECRET)],
    ['percent-encoded in small letters', encodeURIComponent(SECRET).replace(/%../g, (code) => code.toLowerCase())],
    ['form-encoded', new URLSearchParams({ t: SECRET }).toString()],
    ['in base64', Buffer.from(SECRET).toString('base64')],
    ['in base64 behind a name', Buffer.from(`user:${SECRET}`).toString('base64')],
    ['in base64 behind two letters', Buffer.from(`ab${SECRET}:x`).toString('base64')],
    ['in base64url', Buffer.from(SECRET).toString('base64url')],
    ['in hex', Buffer.from(SECRET).toString('hex').toUpperCase()],
    ['in capitals', SECRET.toUpperCase()],
    ['in HTML', SECRET.replaceAll('"', '&quot;')],
    [
      'with JSON escapes that keep clear of HTML',
      JSON.stringify(SECRET).replaceAll('\\"', '\\u0022').replaceAll('+', '\\u002B').replaceAll('\\\\', '\\\\'),
    ],
  ])('takes out a secret %s', (_, echoed) => {
    const redacted = createRedactor([SECRET]).redact(`before ${echoed} after`)
    expect(redacted).toMatch(/^before .*\[redacted\].* after$/)
    for (const piece of ['sk_live', '9+a', Buffer.from(SECRET).toString('base64').slice(4, 14)]) {
      expect(redacted).not.toContain(piece)
    }
  })

  it('takes out every occurrence, the longest secret first', () => {
    expect(createRedactor(['abcd', 'abcdefgh']).redact('abcdefgh abcd abcdefgh')).toBe(
      '[redacted] [redacted] [redacted]',
    )
  })

  it('leaves text alone for secrets of less than four characters', () => {
    expect(createRedactor(['abc', '']).redact('abc')).toBe('abc')
  })

  it('knows the credentials behind a scheme', () => {
    expect(secretsOfHeader('Bearer t0ken')).toEqual(['Bearer t0ken', 't0ken'])
    expect(secretsOfHeader('t0ken')).toEqual(['t0ken'])
  })
})

describe('evidence', () => {
  const redactor = createRedactor(['t0ken-value'])

  function answered(body: string, headers: Record<string, string> = {}): CallVerdict {
    return { phase: 'answered', answer: { status: 401, headers, body: Buffer.from(body) } }
  }

  it('keeps a short list of headers, redacted', () => {
    const headers = { date: 'today', 'x-request-id': 'r-t0ken-value', 'x-internal': 'no', server: 'no' }
    expect(evidenceOf(answered('', headers), redactor).headers).toEqual({
      date: 'today',
      'x-request-id': 'r-[redacted]',
    })
  })

  it('leaves nothing of a secret that lies across the edge of what is kept', () => {
    for (let before = 2030; before < 2050; before++) {
      const { body } = evidenceOf(answered(`${'x'.repeat(before)}t0ken-value${'y'.repeat(3000)}`), redactor)
      expect(body).not.toContain('t0k')
      expect(Buffer.byteLength(body ?? '')).toBeLessThanOrEqual(2048)
    }
  })

  it('leaves nothing of a secret far behind many others', () => {
    const { body } = evidenceOf(answered('t0ken-value'.repeat(500)), redactor)
    expect(body).not.toContain('t0k')
  })

  it('leaves nothing of a secret in which the answer broke off', () => {
    const answer = { status: 200, headers: {}, body: Buffer.from('{"echo":"t0ken-v') }
    const verdict: CallVerdict = {
      phase: 'cut',
      answer,
      error: { code: 'UND_ERR_SOCKET', message: 'closed t0ken-value' },
    }
    expect(evidenceOf(verdict, redactor)).toMatchObject({
      body: '{"echo":"[redacted]',
      error: 'UND_ERR_SOCKET: closed [redacted]',
    })
  })

  it('is valid UTF-8 of at most 2048 bytes without NUL', () => {
    const { body = '' } = evidenceOf(answered(`\0a${'€'.repeat(2000)}`), redactor)
    expect(Buffer.byteLength(body)).toBeLessThanOrEqual(2048)
    expect(body).toMatch(/^\uFFFDa€+$/)
  })
})
