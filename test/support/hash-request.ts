// The hashes of a request whose payload is a value, as the producer makes them.
import { canonicalJson } from '../../src/core/canonical-json.ts'
import { type HashedRequest, hashCanonical } from '../../src/core/logical-hash.ts'

export function hashRequest(request: {
  target: string
  payload: unknown
  given?: string | undefined
  nonce?: string | undefined
}): HashedRequest {
  return hashCanonical({ ...request, canonical: canonicalJson(request.payload) })
}
