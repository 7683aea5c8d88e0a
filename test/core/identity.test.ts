import { expect, test } from 'vitest'
import { deriveKey } from '../../src/core/idempotency-key.ts'
import { ledgerHashOf } from '../../src/core/logical-hash.ts'
import { hashRequest } from '../support/hash-request.ts'

const base = { namespace: 'n', target: 't', logicalHash: 'h', generation: 1 }

test('a key depends on namespace, target, hash and generation, and on nothing else', () => {
  const key = deriveKey(base, { kind: 'uuid', length: 36 })
  expect(key).toBe(deriveKey({ ...base }, { kind: 'uuid', length: 36 }))
  expect(key).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  const others = [{ namespace: 'm' }, { target: 'u' }, { logicalHash: 'i' }, { generation: 2 }].map((change) =>
    deriveKey({ ...base, ...change }, { kind: 'uuid', length: 36 }),
  )
  expect(new Set([key, ...others]).size).toBe(5)
})

test('a hex key has as many characters as asked', () => {
  expect(deriveKey(base, { kind: 'hex', length: 32 })).toMatch(/^[0-9a-f]{32}$/)
  expect(deriveKey(base, { kind: 'hex', length: 64 })).toMatch(/^[0-9a-f]{64}$/)
})

test('a derived hash covers target and payload, and can be given back as it was printed', () => {
  const hashed = hashRequest({ target: 't', payload: { a: 1 } })
  expect(hashed.logicalHash).toMatch(/^v1:[0-9a-f]{64}$/)
  expect(hashRequest({ target: 't', payload: { a: 1 }, given: hashed.logicalHash })).toEqual(hashed)
  expect(hashRequest({ target: 'u', payload: { a: 1 } }).logicalHash).not.toBe(hashed.logicalHash)
  expect(() => hashRequest({ target: 't', payload: { a: 2 }, given: hashed.logicalHash })).toThrow(
    expect.objectContaining({ code: 'REQUEST_INVALID' }),
  )
})

test('the ledger finds a stored row by the hash that enqueue made', () => {
  for (const given of [undefined, 'order-7']) {
    const hashed = hashRequest({ target: 't', payload: [1], given })
    expect(Buffer.from(ledgerHashOf('t', hashed.logicalHash))).toEqual(Buffer.from(hashed.ledgerHash))
  }
})

test('a nonce makes equal payloads different requests', () => {
  const hash = (nonce: string) => hashRequest({ target: 't', payload: 1, nonce }).logicalHash
  expect(hash('a')).not.toBe(hash('b'))
})
