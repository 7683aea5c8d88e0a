// Nonces of attempts, which tell two of the same number apart.
import { randomBytes } from 'node:crypto'

const NONCE_BYTES = 8
/** Random bytes cost as much for many nonces as for one. */
let drawn = Buffer.alloc(0)
let usedBytes = 0

export function newNonce(): string {
  if (usedBytes === drawn.length) {
    drawn = randomBytes(NONCE_BYTES * 64)
    usedBytes = 0
  }
  usedBytes += NONCE_BYTES
  return drawn.toString('hex', usedBytes - NONCE_BYTES, usedBytes)
}
