// Ends one call from outside: an abort signal with one listener, which is all that a call in flight has.
import { invariant } from '../core/errors.ts'
import type { AbortLike } from '../target/target.ts'

export interface CallAbort {
  readonly signal: AbortLike
  abort(reason: Error): void
}

export function createCallAbort(): CallAbort {
  return new SingleAbort()
}

class SingleAbort implements CallAbort, AbortLike {
  aborted = false
  reason: unknown = undefined
  #listener: (() => void) | null = null

  get signal(): AbortLike {
    return this
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    invariant(this.#listener === null, 'a call has one listener for its end')
    this.#listener = listener
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    if (this.#listener === listener) this.#listener = null
  }

  abort(reason: Error): void {
    if (this.aborted) return
    this.aborted = true
    this.reason = reason
    const listener = this.#listener
    this.#listener = null
    listener?.()
  }
}
