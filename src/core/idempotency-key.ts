// The key under which an API knows a request. It never holds the request id: a store rebuilt from the same
// inputs under the same namespace must come to the same keys.
import { hash } from 'node:crypto'

export interface KeyForm {
  readonly kind: 'uuid' | 'hex' | 'sf-string'
  /** Characters of a hex key, 30 to 64. */
  readonly length: number
}

export interface KeyInput {
  readonly namespace: string
  readonly target: string
  readonly logicalHash: string
  readonly generation: number
}

/**
 * @returns a key of at least 120 bits in the wanted form. `uuid` and `sf-string` (RFC 8941 String; the quotes are the
 * header's) have the shape of RFC 9562 version 4, which the strictest validators take; the bits are SHA-256's.
 */
export function deriveKey(input: KeyInput, form: KeyForm): string {
  const { namespace, target, logicalHash, generation } = input
  // As JSON writes the four in an array.
  const parts = `${JSON.stringify(namespace)},${JSON.stringify(target)},${JSON.stringify(logicalHash)},${generation}`
  const digest = hash('sha256', `onceish-key-v1\0[${parts}]`, 'hex')
  return form.kind === 'hex' ? digest.slice(0, form.length) : uuidOf(digest)
}

/** The version and two bits of the variant take the place of the digest's own. */
function uuidOf(hex: string): string {
  const variant = '89ab'.charAt(Number.parseInt(hex.charAt(16), 16) & 3)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
