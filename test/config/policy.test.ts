import { expect, test } from 'vitest'
import { definitionVersion, policyOf } from '../../src/config/policy.ts'
import { parseTarget } from '../support/parse-target.ts'

const RAW = {
  submit: { url: 'https://a.example/jobs', timeoutMs: 20_000 },
  idempotency: { header: 'K', rememberedFor: '24h' },
  taskId: '{% $response.body.id %}',
  lookup: { url: 'https://a.example/jobs?ref={% $key %}', taskId: '{% $response.body.id %}' },
  cancel: { url: 'https://a.example/jobs/{% $taskId %}' },
  limits: { concurrency: 3 },
}

test('a policy says what the services need to know', () => {
  expect(policyOf(parseTarget('t', RAW))).toEqual({
    timeoutMs: 20_000,
    retry: { maxAttempts: 8, initialMs: 1000, maxMs: 300_000 },
    recovery: ['lookup', 'replay', 'hold'],
    key: {
      clientId: false,
      rememberedForMs: 86_400_000,
      marginMs: 8_640_000,
      arrivalMs: 30_000,
      failedFirst: 'unknown',
      maxReplays: 20,
    },
    lookup: {
      settleMs: 60_000,
      everyMs: 60_000,
      misses: 2,
      missMeans: 'hold',
      remembersMs: null,
      dependsOnKey: true,
    },
    tracking: null,
    canCancel: true,
    deadlineMs: 86_400_000,
    dedupe: 'always',
    keepPayloadMs: null,
    onDead: 'block',
    rateLimit: { maxWaitMs: 3_600_000, scope: 'bucket', rampMs: 24_000 },
    breaker: { failures: 20, rate: null, probeMs: 30_000, maxProbeMs: 600_000 },
    expiresAfterMs: null,
    agingMs: null,
    limits: { concurrency: 3, rate: null },
  })
})

test('an opaque target has neither key nor lookup', () => {
  const { submit, taskId } = RAW
  expect(policyOf(parseTarget('t', { submit, taskId }))).toMatchObject({ key: null, lookup: null, canCancel: false })
})

test('a lookup depends on the key where it asks or picks by it', () => {
  const dependsOnKey = (lookup: object) =>
    policyOf(parseTarget('t', { ...RAW, lookup: { ...RAW.lookup, ...lookup } })).lookup?.dependsOnKey
  const byPayload = 'https://a.example/jobs?ref={% $payload.ref %}'
  expect(dependsOnKey({ url: byPayload })).toBe(false)
  expect(dependsOnKey({ url: byPayload, headers: { 'x-ref': '{% $key %}' } })).toBe(true)
  expect(dependsOnKey({ url: byPayload, taskId: '{% $response.body.jobs[ref = $key].id %}' })).toBe(true)
})

test('the version changes with anything in the description, and survives being stored', () => {
  const definition = parseTarget('t', RAW)
  const version = definitionVersion(definition)
  expect(version).toMatch(/^[0-9a-f]{16}$/)
  expect(definitionVersion(JSON.parse(JSON.stringify(definition)))).toBe(version)
  expect(definitionVersion(parseTarget('t', { ...RAW, deadlineMs: '1h' }))).not.toBe(version)
})
