import { afterEach, describe, expect, it } from 'vitest'
import { createHttpTarget, type HttpTargetOptions } from '../../../src/target/http/http-target.ts'
import type { InvokeOptions, Target } from '../../../src/target/target.ts'
import { type DefinitionParts, definitionOf, inputOf } from '../support/definition.ts'
import { answering, closedPort, httpAnswer, type RawServer, rawServer } from '../support/raw-server.ts'

const SECRET = 't0ken-value'
const AUTHORIZED = { authorization: "{% 'Bearer ' & $env.API_KEY %}" }
const open: Target[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((target) => target.close()))
})

function targetOf(parts: DefinitionParts, options: Partial<HttpTargetOptions> = {}): Target {
  const target = createHttpTarget(definitionOf(parts), { env: { API_KEY: SECRET }, ...options })
  open.push(target)
  return target
}

function invokeOn(target: Target, options: Partial<InvokeOptions> = {}) {
  const input = inputOf()
  return target.invoke(target.prepare(input), { input, gate: () => null, ...options })
}

function submitTo(server: RawServer, more: NonNullable<DefinitionParts['submit']> = {}) {
  return { submit: { url: `${server.origin}/jobs`, headers: AUTHORIZED, ...more } }
}

describe('invoke', () => {
  it('sends exactly the frozen call, authorization rendered anew', async () => {
    const server = await answering(httpAnswer(201, '{"id":9007199254740993}'))
    const outcome = await invokeOn(targetOf({ idempotency: {}, ...submitTo(server) }))
    expect(outcome).toMatchObject({ kind: 'accepted', taskId: '9007199254740993' })
    const [request = ''] = server.requests
    expect(request).toContain(`authorization: Bearer ${SECRET}\r\n`)
    expect(request).toContain(`idempotency-key: ${inputOf().key}\r\n`)
    expect(request).toMatch(/\r\n\r\n\{"n":1\}$/)
  })

  it('sends a replay byte for byte', async () => {
    const server = await answering(httpAnswer(500, '{}'), httpAnswer(201, '{"id":"t1"}'))
    const target = targetOf({ idempotency: {}, ...submitTo(server, { connection: 'fresh' }) })
    const input = inputOf()
    const prepared = JSON.parse(JSON.stringify(target.prepare(input)))
    await target.invoke(prepared, { input, gate: () => null })
    await target.invoke(prepared, { input, gate: () => null })
    expect(server.requests).toHaveLength(2)
    expect(server.requests[1]).toBe(server.requests[0])
  })

  it('keeps nothing of a token that the answer echoes', async () => {
    const echo = JSON.stringify({ error: `bad token ${SECRET}`, encoded: Buffer.from(SECRET).toString('base64') })
    const headers = { 'x-request-id': SECRET, location: `http://x/?t=${encodeURIComponent(SECRET)}` }
    const server = await answering(httpAnswer(401, echo, headers))
    const outcome = await invokeOn(targetOf(submitTo(server)))
    expect(outcome.kind).toBe('blocked')
    expect(outcome.evidence.body).toContain('bad token [redacted]')
    expect(JSON.stringify(outcome)).not.toContain(SECRET)
    expect(JSON.stringify(outcome)).not.toContain(Buffer.from(SECRET).toString('base64').slice(0, 12))
  })

  it('is blocked, and calls nobody, while a secret is not set', async () => {
    const server = await answering(httpAnswer(200, '{"id":"t1"}'))
    const outcome = await invokeOn(targetOf(submitTo(server), { env: {} }))
    expect(outcome).toMatchObject({ kind: 'blocked', evidence: { phase: 'not_sent', rule: 'render' } })
    expect(outcome.evidence.error).toContain('API_KEY is not set')
    expect(server.connections()).toBe(0)
  })

  it('is blocked by a secret that no header can carry, and does not show it', async () => {
    const server = await answering(httpAnswer(200, '{"id":"t1"}'))
    const outcome = await invokeOn(targetOf(submitTo(server), { env: { API_KEY: 'two\nlines-of-secret' } }))
    expect(outcome.kind).toBe('blocked')
    expect(JSON.stringify(outcome)).not.toContain('lines-of-secret')
    expect(server.connections()).toBe(0)
  })

  it('is rejected, not blocked, where one request does not fit beside a secret that does', async () => {
    const server = await answering(httpAnswer(200, '{"id":"t1"}'))
    const headers = { 'x-signed': "{% $env.API_KEY & ' ' & $payload.who %}" }
    const target = targetOf(submitTo(server, { headers }))
    const input = inputOf({ payload: '{"who":"snowman \u2603"}' })
    const outcome = await target.invoke(target.prepare(input), { input, gate: () => null })
    expect(outcome).toMatchObject({ kind: 'rejected', evidence: { phase: 'not_sent', rule: 'render' } })
    expect(JSON.stringify(outcome)).not.toContain(SECRET)
    expect(server.connections()).toBe(0)
  })

  it('is not executed when refused, behind a closed gate, or aborted before the write', async () => {
    const refused = targetOf({ submit: { url: `http://127.0.0.1:${await closedPort()}/jobs` } })
    expect(await invokeOn(refused)).toMatchObject({ kind: 'not_executed', refund: true, written: false })
    const server = await answering(httpAnswer(200, '{"id":"t1"}'))
    const target = targetOf(submitTo(server))
    expect(await invokeOn(target, { gate: () => 'lease_short' })).toMatchObject({
      kind: 'not_executed',
      written: false,
      evidence: { rule: 'gate', note: 'lease_short' },
    })
    expect(await invokeOn(target, { signal: AbortSignal.abort() })).toMatchObject({
      kind: 'not_executed',
      written: false,
    })
    expect(server.requests).toEqual([])
  })

  it('is unknown at its deadline and when aborted after the write, which it tells', async () => {
    const abort = new AbortController()
    let written = 0
    const server = await rawServer((connection) => connection.onRequest(() => abort.abort()))
    const target = targetOf(submitTo(server))
    const options = { signal: abort.signal, onWritten: () => written++ }
    expect(await invokeOn(target, options)).toMatchObject({ kind: 'unknown', executed: false })
    expect(written).toBe(1)
    const silent = await rawServer((connection) => connection.onRequest(() => {}))
    const outcome = await invokeOn(targetOf(submitTo(silent, { timeoutMs: 60 })))
    expect(outcome).toMatchObject({ kind: 'unknown', evidence: { phase: 'unanswered' } })
  })

  it('never follows a redirect, nor shows its credentials to where it points', async () => {
    const second = await answering(httpAnswer(200, '{"id":"t1"}'))
    const first = await answering(httpAnswer(308, '', { location: `${second.origin}/jobs` }))
    const outcome = await invokeOn(targetOf(submitTo(first)))
    expect(outcome).toMatchObject({ kind: 'unknown', evidence: { headers: { location: `${second.origin}/jobs` } } })
    expect(second.connections()).toBe(0)
  })

  it('gives the payload to rules that read it', async () => {
    const server = await answering(httpAnswer(400, '{"seen":1}'))
    const outcomes = [{ when: '{% $response.body.seen = $payload.n %}', is: 'mismatch', taskId: null }] as const
    expect((await invokeOn(targetOf({ outcomes, ...submitTo(server) }))).kind).toBe('mismatch')
  })
})

describe('lookup', () => {
  const lookupInput = (target: Target) => ({ ...inputOf(), prepared: target.prepare(inputOf()), taskId: null })

  function lookupOn(server: RawServer, more: DefinitionParts['lookup'] = {}, options: Partial<HttpTargetOptions> = {}) {
    const url = `${server.origin}/jobs?ref={% $key %}`
    return targetOf({ idempotency: {}, ...submitTo(server), lookup: { url, headers: AUTHORIZED, ...more } }, options)
  }

  it('asks by the key, with credentials, and finds the task', async () => {
    const server = await answering(httpAnswer(200, '{"data":[{"id":9007199254740993}]}'))
    const target = lookupOn(server)
    const result = await target.lookup(lookupInput(target))
    expect(result).toMatchObject({ kind: 'found', taskId: '9007199254740993' })
    expect(server.requests[0]).toMatch(new RegExp(`^GET /jobs\\?ref=${inputOf().key} HTTP/1.1\r\n`))
    expect(server.requests[0]).toContain(`authorization: Bearer ${SECRET}`)
  })

  it('is undetermined when nobody answers, keeping no secret', async () => {
    const server = await rawServer((connection) => connection.onRequest(() => connection.reset()))
    const target = lookupOn(server, { url: `${server.origin}/jobs?token={% $env.API_KEY %}&ref={% $key %}` })
    const result = await target.lookup(lookupInput(target))
    expect(result.kind).toBe('undetermined')
    expect(JSON.stringify(result)).not.toContain(SECRET)
    expect(server.requests[0]).toContain(`token=${SECRET}`)
  })

  it('is undetermined when it cannot be rendered, is aborted, or is not described', async () => {
    const server = await answering(httpAnswer(200, '{"data":[],"has_more":false}'))
    const unset = lookupOn(server, {}, { env: {} })
    expect((await unset.lookup(lookupInput(unset))).kind).toBe('undetermined')
    const target = lookupOn(server)
    expect((await target.lookup(lookupInput(target), AbortSignal.abort())).kind).toBe('undetermined')
    const bare = targetOf(submitTo(server))
    expect((await bare.lookup(lookupInput(bare))).kind).toBe('undetermined')
    expect(server.requests).toEqual([])
  })
})

describe('cancel', () => {
  it.each([
    [200, 'canceled'],
    [204, 'canceled'],
    [404, 'failed'],
    [409, 'failed'],
    [500, 'failed'],
  ])('that is answered %i has %s', async (status, kind) => {
    const server = await answering(httpAnswer(status, ''))
    const cancel = { url: `${server.origin}/jobs/{% $taskId %}` }
    const target = targetOf({ ...submitTo(server), cancel })
    const input = { ...inputOf(), prepared: target.prepare(inputOf()), taskId: 'a/b' }
    expect((await target.cancel(input)).kind).toBe(kind)
    expect(server.requests[0]).toMatch(/^DELETE \/jobs\/a%2Fb HTTP/)
  })

  it('fails where the target describes none', async () => {
    const target = targetOf({})
    const input = { ...inputOf(), prepared: target.prepare(inputOf()), taskId: 't1' }
    expect((await target.cancel(input)).kind).toBe('failed')
  })
})

describe('keyFor', () => {
  const of = (target: Target) => target.keyFor({ namespace: 'n', logicalHash: 'v1:aa', generation: 1 })

  it('is in the form that the target wants', () => {
    expect(of(targetOf({ idempotency: {} }))).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4/)
    expect(of(targetOf({ idempotency: { format: { kind: 'hex', length: 40 } } }))).toMatch(/^[0-9a-f]{40}$/)
    expect(of(targetOf({}))).toBeNull()
  })

  it('differs from target to target', () => {
    expect(of(targetOf({ name: 'other', idempotency: {} }))).not.toBe(of(targetOf({ idempotency: {} })))
  })
})
