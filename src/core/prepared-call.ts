// A call as it is frozen with its first attempt.
import { hash } from 'node:crypto'

/** A replay sends exactly this. No secret is in it; authorization is rendered anew at each call. */
export interface PreparedCall {
  readonly method: string
  readonly url: string
  /** Inside the fingerprint; lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** Null: the call has no body. */
  readonly body: string | null
  /** Which account's credentials it was meant for: a setting or a keyed fingerprint; null where none is known. */
  readonly account: string | null
}

/** SHA-256 (hex) over what is sent: method, url, headers and body. Follows from the frozen call, so only evidence keeps it. */
export function fingerprintOf({ method, url, headers, body }: PreparedCall): string {
  const sorted = Object.entries(headers).sort(([a], [b]) => (a < b ? -1 : 1))
  return hash('sha256', JSON.stringify([method, url, sorted, body]), 'hex')
}
