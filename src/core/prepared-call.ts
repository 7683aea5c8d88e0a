/**
 * A call as it is frozen with its first attempt: a replay sends exactly this. No secret is in it; authorization is
 * rendered anew at each call.
 */
export interface PreparedCall {
  readonly method: string
  readonly url: string
  /** Inside the fingerprint; lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** Null: the call has no body. */
  readonly body: string | null
  /** SHA-256 (hex) over method, url, headers and body. */
  readonly fingerprint: string
  /** Which account's credentials it was meant for: a setting or a keyed fingerprint; null where none is known. */
  readonly account: string | null
}
