// Advisory locks by name: 64 bits of a hash, in the space of one schema.
import { createHash } from 'node:crypto'

/** @returns as text, since it can be larger than a number is exact. */
export function lockId(schema: string, ...name: readonly string[]): string {
  const digest = createHash('sha256')
    .update(JSON.stringify(['onceish', schema, ...name]))
    .digest()
  return digest.readBigInt64BE(0).toString()
}
