// What makes two requests the same request, and the 32 bytes under which the ledger knows it.
import { hash } from 'node:crypto'
import { OnceishError } from './errors.ts'
import { MAX_LOGICAL_HASH_CHARS } from './limits.ts'

const DERIVED = /^v1:[0-9a-f]{64}$/

export interface HashedRequest {
  readonly logicalHash: string
  readonly ledgerHash: Uint8Array
  /** Null where the logical hash covers the payload by itself. */
  readonly payloadHash: Uint8Array | null
}

/**
 * @param canonical the payload's canonical text (`canonical-json.ts`).
 * @param given the caller's own logical hash, 1 to 512 characters; its scope is the target. Absent: derived from target and payload.
 * @param nonce makes every enqueue its own request (`dedupe: none`).
 * @throws OnceishError REQUEST_INVALID
 */
export function hashCanonical(request: {
  target: string
  canonical: string
  given?: string | undefined
  nonce?: string | undefined
}): HashedRequest {
  const { canonical, given } = request
  if (given === undefined) return derived(request.target, canonical, request)
  checkGiven(given)
  if (DERIVED.test(given)) return derived(request.target, canonical, request)
  const logicalHash = request.nonce === undefined ? given : `${given}#${request.nonce}`
  return { logicalHash, ledgerHash: ledgerHashOf(request.target, logicalHash), payloadHash: sha256(canonical) }
}

/** The ledger's key for a stored row: what `hashCanonical` made of it. */
export function ledgerHashOf(target: string, logicalHash: string): Uint8Array {
  return derivedBytes(logicalHash) ?? sha256(`given\0${JSON.stringify(target)}\0${logicalHash}`)
}

/** The 32 bytes of a derived hash; null for one that a caller gave. */
export function derivedBytes(logicalHash: string): Buffer | null {
  return DERIVED.test(logicalHash) ? Buffer.from(logicalHash.slice(3), 'hex') : null
}

function derived(
  target: string,
  canonical: string,
  request: { given?: string | undefined; nonce?: string | undefined },
): HashedRequest {
  const nonce = request.nonce === undefined ? '' : `,${JSON.stringify(request.nonce)}`
  const digits = hash('sha256', `[${JSON.stringify(target)},${canonical}${nonce}]`)
  const logicalHash = `v1:${digits}`
  if (request.given !== undefined && request.given !== logicalHash) {
    throw new OnceishError(
      'REQUEST_INVALID',
      `logical hash ${request.given} is not this payload's (${logicalHash}); "v1:" is kept for derived hashes, use another prefix`,
    )
  }
  return { logicalHash, ledgerHash: Buffer.from(digits, 'hex'), payloadHash: null }
}

function checkGiven(given: unknown): void {
  const isText = typeof given === 'string' && given.isWellFormed() && !given.includes('\0')
  if (isText && given.length > 0 && given.length <= MAX_LOGICAL_HASH_CHARS) return
  const shown = typeof given === 'string' ? `${given.length} of them` : JSON.stringify(given)
  throw new OnceishError(
    'REQUEST_INVALID',
    `logicalHash is text of 1 to ${MAX_LOGICAL_HASH_CHARS} well-formed characters without NUL, not ${shown}`,
  )
}

function sha256(text: string): Buffer {
  return Buffer.from(hash('sha256', text), 'hex')
}
